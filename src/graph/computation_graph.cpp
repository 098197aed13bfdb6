#include "renaissance/graph/computation_graph.h"

#include <algorithm>

namespace tr {

std::string_view graph_name(GraphId graph) {
  constexpr std::array<std::string_view, NUM_GRAPHS> NAMES{
      "input",     "zero_grad", "forward",    "backward",       "grad_cast", "accumulate", "grad_average",
      "exchange",  "watch",     "optimizer",  "weight_cast",    "ema",       "statistics", "micro_statistics",
      "inference", "metrics",   "eval_setup", "eval_setup_ema", "ema_switch"};
  return NAMES.at(static_cast<size_t>(graph));
}

std::string_view range_op_name(RangeOp op) {
  constexpr std::array<std::string_view, 34> NAMES{"RANGE_H2D_COPY_A",
                                                   "RANGE_H2D_COPY_B",
                                                   "RANGE_H2D_COPY_DTENSOR",
                                                   "RANGE_BN_STATS_ALLREDUCE",
                                                   "RANGE_UPDATE_BIAS_SGD",
                                                   "RANGE_UPDATE_BIAS_MOMENTUM",
                                                   "RANGE_UPDATE_BIAS_NESTEROV",
                                                   "RANGE_UPDATE_BIAS_ADAM",
                                                   "RANGE_UPDATE_BIAS_LARS",
                                                   "RANGE_UPDATE_BIAS_LARS_NESTEROV",
                                                   "RANGE_UPDATE_WEIGHT_SGD",
                                                   "RANGE_UPDATE_WEIGHT_MOMENTUM",
                                                   "RANGE_UPDATE_WEIGHT_NESTEROV",
                                                   "RANGE_UPDATE_WEIGHT_ADAM",
                                                   "RANGE_UPDATE_WEIGHT_ADAMW",
                                                   "RANGE_UPDATE_WEIGHT_LARS",
                                                   "RANGE_UPDATE_WEIGHT_LARS_NESTEROV",
                                                   "RANGE_EMA_PARAM_UPDATE",
                                                   "RANGE_SEMA_SWITCH",
                                                   "RANGE_CLEAR",
                                                   "RANGE_D2D_COPY",
                                                   "RANGE_CAST_FP32_TO_FP16",
                                                   "RANGE_CAST_FP16_TO_FP32",
                                                   "RANGE_SUM_ALLREDUCE",
                                                   "RANGE_MEAN_ALLREDUCE",
                                                   "RANGE_CHECK_NAN",
                                                   "RANGE_GRAD_SCALING",
                                                   "RANGE_ACCUM_METRICS",
                                                   "RANGE_ADVANCE_SCALARS",
                                                   "RANGE_CLIP_NORM",
                                                   "RANGE_TRUST_RATIOS",
                                                   "RANGE_GRAD_ACCUMULATE",
                                                   "RANGE_GRAD_AVERAGE",
                                                   "RANGE_FOLD_BN"};
  return NAMES.at(static_cast<size_t>(op));
}

bool is_collective(RangeOp op) {
  return op == RangeOp::RANGE_BN_STATS_ALLREDUCE || op == RangeOp::RANGE_SUM_ALLREDUCE ||
         op == RangeOp::RANGE_MEAN_ALLREDUCE;
}

std::pair<int64_t, int64_t> resolve_region_bounds(const MemoryPlan& plan, const RegionRange& range) {
  return plan.region_range(range.first, range.last);
}

std::vector<std::pair<int64_t, int64_t>> resolve_slots(const MemoryPlan& plan,
                                                       const std::vector<TensorId>& tensors) {
  std::vector<std::pair<int64_t, int64_t>> slots, whole;
  for (const TensorId id : tensors) slots.emplace_back(plan.tensor(id).offset, plan.tensor(id).slot_bytes);
  std::sort(slots.begin(), slots.end());
  for (const auto& [offset, bytes] : slots) {
    if (!whole.empty() && whole.back().first + whole.back().second == offset)
      whole.back().second += bytes;
    else
      whole.emplace_back(offset, bytes);
  }
  return whole;
}

}  // namespace tr
