/// Recomputation: a feature map that backward needs is dropped after forward and computed again just before
/// it is needed. Fewer bytes for more time; the same bits, since the same kernel gets the same input.
///
/// Choosing which is the checkpointing problem (Chen et al. 2016, "Training deep nets with sublinear memory
/// cost"; Jain et al. 2020, "Checkmate"). Here: greedy by bytes saved where too many are alive per added
/// time.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "graph/wiring.h"

namespace tr {

struct RecomputeProblem {
  const Wiring* wiring = nullptr;  ///< without recomputation
  const ArchPlan* arch = nullptr;
  std::function<OpQuery(int op)> query;                 ///< of train_base
  std::function<int64_t(const TensorRef&)> slot_bytes;  ///< of any operand but BASELINE
  std::function<bool(const TensorRef&)> is_transient;
  std::function<int64_t(int op, Pass)> workspace_bytes;  ///< of the slot
  int64_t always_bytes = 0;                              ///< of the zone, needed all the time
  double flops_per_byte = 1.0;  ///< operations that take the device as long as moving a byte
};

/// An estimate: `time` in bytes moved, or operations over RecomputeProblem::flops_per_byte where that is
/// more.
struct NodeCost {
  int64_t bytes = 0, flops = 0;
  double time = 0.0;

  NodeCost& operator+=(const NodeCost& other);
};

/// What was chosen and what it costs.
struct RecomputeChoice {
  std::vector<ValueId> values;  ///< rising
  int64_t peak_bytes = 0;       ///< the most alive at once
  NodeCost added, step;         ///< of the recomputing nodes; of forward and backward without them
  double added_time() const { return step.time > 0.0 ? added.time / step.time : 0.0; }
};

class RecomputePlanner {
 public:
  static constexpr double ANY_TIME = std::numeric_limits<double>::infinity();

  /// Asks `problem` now and never again.
  explicit RecomputePlanner(const RecomputeProblem& problem);
  ~RecomputePlanner();
  RecomputePlanner(const RecomputePlanner&) = delete;
  RecomputePlanner& operator=(const RecomputePlanner&) = delete;

  /// The step as it is.
  RecomputeChoice nothing();
  /// Little added time such that at most `limit_bytes` are alive at once; the fewest bytes that were found
  /// where that cannot be. `cheap`: only what costs no arithmetic to speak of.
  RecomputeChoice within(int64_t limit_bytes, bool cheap);
  /// The fewest bytes for at most `most_added_time` of the step's.
  RecomputeChoice fewest_bytes(double most_added_time, bool cheap);

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

/// Adds the recomputing nodes and lets backward read what they write.
void insert_recomputation(Wiring& wiring, const std::vector<ValueId>& values,
                          const std::function<OpQuery(int op)>& query);

}  // namespace tr
