#include "renaissance/train/fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "renaissance/graph/outside_memory.h"
#include "train/recipe_values.h"

namespace tr {

namespace {

/// Finds the border between a batch that fits and the next that does not. Bytes are almost a line over the
/// batch, so the border is looked for where the line through the bracket's ends meets the memory. Batches in
/// between whose shapes cannot run are passed over.
class BatchSearch {
 public:
  BatchSearch(const Recipe& recipe, const DataInfo& info, const FitRequest& request)
      : recipe_(recipe),
        info_(info),
        request_(request),
        catalog_(std::make_shared<const Catalog>(make_catalog())),
        most_multiples_(info.train_samples / recipe.ranks / request.granularity) {
    TR_CHECK(most_multiples_ >= 1, ValueError,
             cat("fit: granularity ", request.granularity, " on ", recipe.ranks,
                 " ranks needs more samples a step than the ", info.train_samples,
                 " of the data; use at most ", std::max<int64_t>(info.train_samples / recipe.ranks, 1)));
  }

  BatchFit run() {
    low_ = plan_smallest();
    TR_CHECK(fits(low_), ValueError,
             cat("fit: a batch of ", low_.batch, " needs ", low_.bytes(), " bytes, there are ",
                 request_.memory_bytes, "; give more memory or use a smaller model or resolution"));
    bool halve = false;
    while (candidates() > 0) {
      const BatchNeed need = plan_near(high_ ? guess_inside(halve) : guess_beyond());
      if (fits(need))
        low_ = need;
      else
        high_ = need;
      halve = !halve;
    }
    return {low_, next(), target_, plans_};
  }

 private:
  int64_t multiples(const BatchNeed& need) const { return need.batch / request_.granularity; }
  bool fits(const BatchNeed& need) const {
    return need.is_planned() && need.bytes() <= request_.memory_bytes;
  }

  /// A batch that leaves one sample over, the refusal to expect, divides the number of the others. So many in
  /// a row have their least common multiple above 10^14: they are refused for another reason.
  static constexpr int64_t MOST_REFUSALS = 32;

  BatchNeed plan_smallest() {
    std::optional<Error> first;
    for (int64_t count = 1; count <= std::min(MOST_REFUSALS, most_multiples_); ++count) {
      try {
        return plan(count);
      } catch (const Error& error) {
        if (!is_of_shape(error)) throw;
        refused_[count] = error.what();
        if (!first) first = error;
      }
    }
    throw *first;
  }

  static bool is_of_shape(const Error& error) {
    return error.kind() == ErrorKind::NotSupportedError || error.kind() == ErrorKind::ShapeError;
  }

  /// The first multiple that is known not to be the answer, or that the data are too few for.
  int64_t end() const { return high_ ? multiples(*high_) : most_multiples_ + 1; }

  /// Multiples that may still be the answer: between low_ and end(), and not refused.
  int64_t candidates() const {
    const auto refused = std::distance(refused_.upper_bound(multiples(low_)), refused_.lower_bound(end()));
    return end() - multiples(low_) - 1 - refused;
  }

  /// The one closest to `count`.
  int64_t nearest_candidate(int64_t count) const {
    const auto is_candidate = [&](int64_t at) {
      return at > multiples(low_) && at < end() && !refused_.contains(at);
    };
    int64_t distance = 0;
    while (!is_candidate(count - distance) && !is_candidate(count + distance)) ++distance;
    return is_candidate(count - distance) ? count - distance : count + distance;
  }

  /// The plan of the candidate closest to `count` that can run. The smallest refused one where too many in a
  /// row, or all, cannot.
  BatchNeed plan_near(int64_t count) {
    BatchNeed smallest;
    for (int64_t tries = 0; tries < MOST_REFUSALS && candidates() > 0; ++tries) {
      const int64_t at = nearest_candidate(count);
      try {
        return plan(at);
      } catch (const Error& error) {
        if (!is_of_shape(error)) throw;
        refused_[at] = error.what();
        if (tries == 0 || at < multiples(smallest)) smallest = refused(at);
      }
    }
    return smallest;
  }

  BatchNeed refused(int64_t count) const {
    BatchNeed need;
    need.batch = count * request_.granularity;
    need.refusal = refused_.at(count);
    return need;
  }

  std::optional<BatchNeed> next() const {
    const int64_t count = multiples(low_) + 1;
    return refused_.contains(count) ? refused(count) : high_;
  }

  /// Nothing where the recipe's budget cannot be met. What the smallest batch is refused for is another
  /// mistake.
  std::optional<CompiledModel> compiled(const Recipe& recipe) const {
    try {
      return compile(compile_request(recipe, info_, true), catalog_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::RecipeError || recipe.budget_bytes == 0 || low_.batch == 0) throw;
      return std::nullopt;
    }
  }

  BatchNeed plan(int64_t count) {
    Recipe recipe = recipe_;
    recipe.train.batch_size = count * request_.granularity;
    ++plans_;
    BatchNeed need;
    need.batch = recipe.train.batch_size;
    const std::optional<CompiledModel> planned = compiled(recipe);
    need.exceeds_budget = !planned.has_value();
    if (need.exceeds_budget) return need;
    const CompiledModel& model = *planned;
    target_ = model.request.target;
    need.arena_bytes = model.plan(Variant::TRAIN_BASE).total_bytes();
    need.arenas = target_.backend == BackendKind::CPU ? target_.ranks : 1;
    if (const auto overhead = measured_overhead(target_)) need.overhead_bytes = overhead->bytes();
    need.pinned_host_bytes = pinned_host_bytes(model);
    last_but_one_ = last_;
    last_ = need;
    return need;
  }

  /// No batch is known yet that is too large: doubled at least, and no more than sixty-fourfold, since small
  /// batches say little about large ones.
  int64_t guess_beyond() const {
    constexpr int64_t MOST_GROWTH = 64;
    const int64_t now = multiples(low_);
    int64_t to = 2 * now;
    if (last_but_one_.batch > 0) to = std::max(to, on_line(last_but_one_, last_));
    return std::min({to, MOST_GROWTH * now, most_multiples_});
  }

  /// Between what fits and what does not; every second time the middle, where a line would creep.
  int64_t guess_inside(bool halve) const {
    const int64_t low = multiples(low_), high = multiples(*high_);
    if (halve || !high_->is_planned()) return low + (high - low) / 2;
    return std::clamp(on_line(low_, *high_), low + 1, high - 1);
  }

  /// Multiples at which the line through two batches reaches the memory, rounded down.
  int64_t on_line(const BatchNeed& a, const BatchNeed& b) const {
    const double slope =
        static_cast<double>(b.bytes() - a.bytes()) / static_cast<double>(multiples(b) - multiples(a));
    if (!(slope > 0.0)) return most_multiples_;
    const double rise = static_cast<double>(request_.memory_bytes - a.bytes());
    const double at = static_cast<double>(multiples(a)) + rise / slope;
    return static_cast<int64_t>(std::min(at, static_cast<double>(most_multiples_)));
  }

  const Recipe& recipe_;
  const DataInfo& info_;
  const FitRequest& request_;
  std::shared_ptr<const Catalog> catalog_;
  int64_t most_multiples_;
  BatchNeed low_, last_, last_but_one_;
  std::optional<BatchNeed> high_;
  std::map<int64_t, std::string> refused_;  // multiples whose shapes cannot run, with the reason
  Target target_;
  int plans_ = 0;
};

}  // namespace

BatchFit fit_batch(const Recipe& recipe, const DataInfo& info, const FitRequest& request) {
  TR_CHECK(request.memory_bytes >= 1, ValueError,
           cat("fit: memory of ", request.memory_bytes, " bytes; give at least 1"));
  TR_CHECK(request.granularity >= 1, ValueError,
           cat("fit: granularity ", request.granularity, "; give at least 1"));
  return BatchSearch(recipe, info, request).run();
}

int64_t parse_bytes(const std::string& text, const std::string& who) {
  const std::optional<int64_t> bytes = read_bytes(text);
  TR_CHECK(bytes && *bytes >= 1, ValueError,
           cat(who, ": '", text, "' is not a size; write 24GiB, 24GB or a number of bytes, at least 1"));
  return *bytes;
}

}  // namespace tr
