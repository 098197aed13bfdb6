#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/packing/exact.h"
#include "graph/packing/skyline.h"
#include "renaissance/core/error.h"

namespace tr {

namespace packing {

namespace {

// What the greedy orders may take: times the items to the power of 3/2, and at the least.
constexpr double STEPS = 45;
constexpr int64_t LEAST_STEPS = 1'500'000;
// What the search may take without being asked for, unless that is too little for the square of the items:
// every packing takes as many choices as items, and a choice looks at all of them.
constexpr int64_t SEARCH_STEPS = 16'000'000;
constexpr int64_t LEAST_STEPS_PER_PAIR = 40;
constexpr int64_t MOST_PAIRS = 20'000'000;  // that the search lists

struct Greedy {
  Priority priority;
  Fit fit;
  bool is_skyline;
};
// The first brings large trainings to the lower bound, the second does with time turned round; each of the
// others lowered the mean over random and training-like families most, given those before it.
constexpr Greedy GREEDY[] = {{Priority::PEAK_SIZE, Fit::FIRST, false},
                             {Priority::PEAK_SIZE_DEATH, Fit::FIRST, false},
                             {Priority::CLASS_PEAK_LIFETIME, Fit::FIRST, false},
                             {Priority::CONTENTION_AREA, Fit::FIRST, true},
                             {Priority::CONTENTION_LIFETIME, Fit::FIRST, true},
                             {Priority::PEAK_LIFETIME, Fit::FIRST, true},
                             {Priority::CONTENTION_SIZE, Fit::FIRST, false},
                             {Priority::AREA, Fit::FIRST, true},
                             {Priority::PEAK_SIZE, Fit::FIRST, true},
                             {Priority::CONTENTION_LIFETIME, Fit::BEST, false},
                             {Priority::BIRTH, Fit::FIRST, true}};

void check(const PackingOptions& options) {
  TR_CHECK(
      options.capacity >= 0, ValueError,
      cat("packing: capacity is ", options.capacity, "; expected a number of bytes, or 0 for the least"));
  TR_CHECK(options.effort >= 1 && options.effort <= 10'000, ValueError,
           cat("packing: effort is ", options.effort, "; expected 1 to 10000"));
  TR_CHECK(options.exact_nodes >= 0, ValueError,
           cat("packing: exact_nodes is ", options.exact_nodes, "; expected 0 or more"));
}

struct SearchLimits {
  int64_t nodes = 0, steps = 0;
};

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
    budget_.left =
        std::max(static_cast<int64_t>(STEPS * items * std::sqrt(items)), LEAST_STEPS) * options.effort;
  }

  void greedy();
  void search(SearchLimits limits);
  Packing result() const;

 private:
  bool is_done() const { return best_.bytes <= target_; }
  void try_order(const Order& order, Fit fit);
  bool find_within(ExactSearch& search, int64_t capacity, int64_t share);

  const Sections& sections_;
  const PackingOptions& options_;
  Placer placer_;
  Budget budget_;
  int64_t target_;         ///< bytes at which to stop
  int64_t nothing_below_;  ///< no packing needs fewer bytes
  SearchLimits left_;
  Packing best_{{}, std::numeric_limits<int64_t>::max()};
};

/// The first order is placed whatever it costs.
void Run::try_order(const Order& order, Fit fit) {
  Budget unlimited = UNLIMITED;
  const bool is_first = best_.offsets.empty();
  if (placer_.place(order, fit, best_.bytes - 1, is_first ? unlimited : budget_)) {
    best_.offsets = placer_.offsets();
    best_.bytes = placer_.bytes();
  }
  budget_.left -= UNLIMITED.left - unlimited.left;
}

void Run::greedy() {
  for (const Greedy& greedy : GREEDY) {
    if (is_done() || budget_.is_spent()) return;
    Order order = order_by(sections_, greedy.priority);
    if (greedy.is_skyline) order = skyline_order(sections_, order, budget_);
    try_order(order, greedy.fit);
  }
}

/// Searches with one part in `share` of what is left.
bool Run::find_within(ExactSearch& search, int64_t capacity, int64_t share) {
  const int64_t nodes = left_.nodes / share + (left_.nodes % share > 0 ? 1 : 0);
  const Verdict verdict = search.run(capacity, nodes, left_.steps / share);
  left_.nodes -= search.nodes();
  left_.steps -= search.steps();
  if (verdict == Verdict::NONE) nothing_below_ = std::max(nothing_below_, capacity + 1);
  if (verdict != Verdict::FOUND) return false;
  best_.offsets = search.offsets();
  best_.bytes = 0;
  for (size_t i = 0; i < best_.offsets.size(); ++i)
    best_.bytes = std::max(best_.bytes, best_.offsets[i] + sections_.items[i].size);
  return true;
}

/// First for the target itself, then for halving what lies between it and the best.
void Run::search(SearchLimits limits) {
  if (is_done() || (options_.capacity > 0 && options_.capacity < sections_.lower_bound)) return;
  left_ = limits;
  best_.greedy_only = false;
  ExactSearch search(sections_);
  if (find_within(search, target_, 2)) return;
  if (options_.capacity > 0 && nothing_below_ > options_.capacity) return;
  int64_t step = 0;  // every packing that is pushed down ends at a multiple of it
  for (const Item& item : sections_.items) step = std::gcd(step, item.size);
  for (int64_t least = target_ / step + 1; least * step < best_.bytes && left_.nodes > 0;) {
    const int64_t middle = least + (best_.bytes / step - 1 - least) / 2;
    if (!find_within(search, middle * step, 4)) least = middle + 1;
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
  if (sections.items.empty()) return {.proven = true};
  const int64_t pairs = packing::count_pairs(sections);
  TR_CHECK(
      !options.exact || pairs <= packing::MOST_PAIRS, ValueError,
      cat("packing: the exhaustive search was asked for ", pairs,
          " pairs of items alive together; expected at most ", packing::MOST_PAIRS, "; pack without it"));
  packing::Run run(sections, options);
  run.greedy();
  constexpr int64_t UNLIMITED_STEPS = packing::UNLIMITED.left;
  const auto items = static_cast<int64_t>(sections.items.size());
  const int64_t steps = packing::SEARCH_STEPS * options.effort;
  if (options.exact)
    run.search({options.exact_nodes, UNLIMITED_STEPS});
  else if (steps >= packing::LEAST_STEPS_PER_PAIR * items * items && pairs <= packing::MOST_PAIRS)
    run.search({UNLIMITED_STEPS, steps});
  return run.result();
}

}  // namespace tr
