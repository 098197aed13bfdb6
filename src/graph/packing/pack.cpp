#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/packing/exact.h"
#include "graph/packing/search.h"
#include "graph/packing/skyline.h"
#include "renaissance/core/error.h"

namespace tr {

namespace packing {

namespace {

constexpr double STEPS = 420;  // times the items to the power of 5/4
constexpr int64_t LEAST_STEPS = 2'000'000;
constexpr int64_t SEARCH_SHARE = 5;      // of the budget, one part is kept for the search over orders
constexpr int64_t LOOKS_PER_ITEM = 150;  // that one filling from the bottom may take
constexpr int64_t GOOD_ENOUGH = 1000;  // bytes over the bound by less than one part in this are not searched
constexpr int64_t MOST_PAIRS = 20'000'000;  // that the exhaustive search lists
constexpr int64_t FIRST_NODES = 2'000;      // of the exhaustive search, before another order is tried

void check(const PackingOptions& options) {
  TR_CHECK(
      options.capacity >= 0, ValueError,
      cat("packing: capacity is ", options.capacity, "; expected a number of bytes, or 0 for the least"));
  TR_CHECK(options.effort >= 1 && options.effort <= 10'000, ValueError,
           cat("packing: effort is ", options.effort, "; expected 1 to 10000"));
  TR_CHECK(options.exact_nodes >= 0, ValueError,
           cat("packing: exact_nodes is ", options.exact_nodes, "; expected 0 or more"));
}

/// One run of pack(): the best packing so far and what may still be spent.
class Run {
 public:
  Run(const Sections& sections, const PackingOptions& options)
      : sections_(sections),
        options_(options),
        placer_(sections),
        target_(std::max(sections.lower_bound, options.capacity)),
        nothing_below_(sections.lower_bound) {
    const auto items = static_cast<double>(sections.items.size());
    // Square roots are the same on every machine, other powers need not be.
    const auto steps =
        std::max(static_cast<int64_t>(STEPS * items * std::sqrt(std::sqrt(items))), LEAST_STEPS) *
        options.effort;
    search_budget_.left = steps / SEARCH_SHARE;
    greedy_budget_.left = steps - search_budget_.left;
  }

  void greedy();
  void improve();
  void exhaust();
  Packing result() const;

 private:
  bool is_done() const { return best_.bytes <= target_; }
  void try_order(const Order& order, Fit fit);
  bool find_within(ExactSearch& search, int64_t capacity, int64_t nodes);

  const Sections& sections_;
  const PackingOptions& options_;
  Placer placer_;
  Budget greedy_budget_, search_budget_;
  int64_t target_;         ///< bytes at which to stop
  int64_t nothing_below_;  ///< no packing needs fewer bytes
  int64_t nodes_left_ = 0;
  Packing best_{{}, std::numeric_limits<int64_t>::max(), 0, false};
  Order best_order_;
};

/// The first order is placed whatever it costs.
void Run::try_order(const Order& order, Fit fit) {
  Budget first = UNLIMITED;
  Budget& budget = best_order_.empty() ? first : greedy_budget_;
  if (placer_.place(order, fit, best_.bytes - 1, budget)) {
    best_.offsets = placer_.offsets();
    best_.bytes = placer_.bytes();
    best_order_ = order;
  }
  if (&budget == &first) greedy_budget_.left -= UNLIMITED.left - first.left;
}

void Run::greedy() {
  const auto may_go_on = [&] { return !is_done() && !greedy_budget_.is_spent(); };
  std::vector<Order> orders;
  for (const Priority priority : PRIORITIES) orders.push_back(order_by(sections_, priority));
  const int64_t most_looks = LOOKS_PER_ITEM * static_cast<int64_t>(sections_.items.size());
  for (size_t i = 0; i < orders.size() && may_go_on(); ++i) {
    try_order(orders[i], Fit::FIRST);
    if (may_go_on()) try_order(skyline_order(sections_, orders[i], most_looks, greedy_budget_), Fit::FIRST);
  }
  for (size_t i = 0; i < orders.size() && may_go_on(); ++i) try_order(orders[i], Fit::BEST);
}

void Run::improve() {
  const int64_t spare = best_.bytes - sections_.lower_bound;
  if (is_done() || spare <= sections_.lower_bound / GOOD_ENOUGH) return;
  // A best-fit packing need not be what first fit makes of its order: the offsets' own order serves both.
  std::sort(best_order_.begin(), best_order_.end(), [&](int32_t a, int32_t b) {
    const int64_t low = best_.offsets[static_cast<size_t>(a)], high = best_.offsets[static_cast<size_t>(b)];
    return low != high ? low < high : a < b;
  });
  search_budget_.left += std::max<int64_t>(greedy_budget_.left, 0);
  const Order better = improve_order(sections_, placer_, best_order_, target_, search_budget_);
  greedy_budget_ = UNLIMITED;
  try_order(better, Fit::FIRST);
}

/// Tries one order after the other, each time with twice the nodes: which order is lucky cannot be foretold.
bool Run::find_within(ExactSearch& search, int64_t capacity, int64_t nodes) {
  nodes = std::min(nodes, nodes_left_);
  for (int64_t limit = FIRST_NODES; nodes > 0; limit *= 2)
    for (const Priority priority : PRIORITIES) {
      const Verdict verdict = search.run(capacity, order_by(sections_, priority), std::min(limit, nodes));
      nodes -= search.nodes();
      nodes_left_ -= search.nodes();
      if (verdict == Verdict::NONE) nothing_below_ = std::max(nothing_below_, capacity + 1);
      if (verdict == Verdict::NONE) return false;
      if (verdict == Verdict::CUT) continue;
      best_.offsets = search.offsets();
      best_.bytes = 0;
      for (size_t i = 0; i < best_.offsets.size(); ++i)
        best_.bytes = std::max(best_.bytes, best_.offsets[i] + sections_.items[i].size);
      return true;
    }
  return false;
}

/// Three quarters of the nodes for the target itself, the rest for halving what lies between it and the best.
void Run::exhaust() {
  if (is_done() || (options_.capacity > 0 && options_.capacity < sections_.lower_bound)) return;
  nodes_left_ = options_.exact_nodes;
  ExactSearch search(sections_);
  if (find_within(search, target_, nodes_left_ - nodes_left_ / 4)) return;
  if (options_.capacity > 0 && nothing_below_ > options_.capacity) return;
  int64_t step = 0;  // every packing that is pushed down ends at a multiple of it
  for (const Item& item : sections_.items) step = std::gcd(step, item.size);
  for (int64_t least = target_ / step + 1; least * step < best_.bytes && nodes_left_ > 0;) {
    const int64_t middle = least + (best_.bytes / step - 1 - least) / 2;
    if (!find_within(search, middle * step, std::max(FIRST_NODES, nodes_left_ / 4))) least = middle + 1;
  }
  nothing_below_ = (nothing_below_ + step - 1) / step * step;
}

Packing Run::result() const {
  Packing packing = best_;
  packing.lower_bound = sections_.lower_bound;
  packing.proven =
      packing.bytes <= nothing_below_ ||
      (options_.capacity > 0 && packing.bytes > options_.capacity && nothing_below_ > options_.capacity);
  return packing;
}

/// Pairs of items alive together.
int64_t count_pairs(const Sections& sections) {
  std::vector<int64_t> change(sections.load.size() + 1);
  for (const Item& item : sections.items) {
    ++change[static_cast<size_t>(item.first)];
    --change[static_cast<size_t>(item.last) + 1];
  }
  std::vector<int64_t> births(sections.load.size());
  for (const Item& item : sections.items) ++births[static_cast<size_t>(item.first)];
  int64_t alive = 0, pairs = 0;
  for (size_t s = 0; s < births.size(); ++s) {
    alive += change[s];
    pairs += births[s] * (alive - births[s]) + births[s] * (births[s] - 1) / 2;
  }
  return pairs;
}

}  // namespace

}  // namespace packing

Packing pack(const PackingProblem& problem, const PackingOptions& options) {
  packing::check(options);
  const packing::Sections sections = packing::make_sections(problem);
  if (sections.items.empty()) return {{}, 0, 0, true};
  if (options.exact) {
    const int64_t pairs = packing::count_pairs(sections);
    TR_CHECK(
        pairs <= packing::MOST_PAIRS, ValueError,
        cat("packing: the exhaustive search was asked for ", pairs,
            " pairs of items alive together; expected at most ", packing::MOST_PAIRS, "; pack without it"));
  }
  packing::Run run(sections, options);
  run.greedy();
  run.improve();
  if (options.exact) run.exhaust();
  return run.result();
}

}  // namespace tr
