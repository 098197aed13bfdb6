/// The shapeless graph of a step: nodes hold tensor ids and region pairs, never sizes or pointers, so one
/// graph serves every variant.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/graph/op_spec.h"

namespace tr {

enum class NodeKind : uint8_t { COMPUTE, RANGE };

/// The named parts of a step, in the order they run; the last three run between steps.
enum class GraphId : uint8_t {
  INPUT,
  ZERO_GRAD,
  FORWARD,
  BACKWARD,
  GRAD_CAST,
  ACCUMULATE,    ///< of micro-batches whose gradients wait for the update
  GRAD_AVERAGE,  ///< of the micro-batch that ends the wait
  EXCHANGE,
  WATCH,
  OPTIMIZER,
  WEIGHT_CAST,
  EMA,
  STATISTICS,
  MICRO_STATISTICS,  ///< in place of STATISTICS where no update follows
  INFERENCE,
  METRICS,
  EVAL_SETUP,      ///< once before an evaluation
  EVAL_SETUP_EMA,  ///< once before an evaluation of the averaged weights
  EMA_SWITCH,      ///< the averaged weights become the trained ones
  END
};
inline constexpr int NUM_GRAPHS = static_cast<int>(GraphId::END);
std::string_view graph_name(GraphId graph);

/// Operations over ranges of regions. Semantics: docs/memory-plan.md.
enum class RangeOp : uint8_t {
  RANGE_H2D_COPY_A,
  RANGE_H2D_COPY_B,
  RANGE_H2D_COPY_DTENSOR,
  RANGE_BN_STATS_ALLREDUCE,
  RANGE_UPDATE_BIAS_SGD,
  RANGE_UPDATE_BIAS_MOMENTUM,
  RANGE_UPDATE_BIAS_NESTEROV,
  RANGE_UPDATE_BIAS_ADAM,
  RANGE_UPDATE_BIAS_LARS,
  RANGE_UPDATE_BIAS_LARS_NESTEROV,
  RANGE_UPDATE_WEIGHT_SGD,
  RANGE_UPDATE_WEIGHT_MOMENTUM,
  RANGE_UPDATE_WEIGHT_NESTEROV,
  RANGE_UPDATE_WEIGHT_ADAM,
  RANGE_UPDATE_WEIGHT_ADAMW,
  RANGE_UPDATE_WEIGHT_LARS,
  RANGE_UPDATE_WEIGHT_LARS_NESTEROV,
  RANGE_EMA_PARAM_UPDATE,
  RANGE_SEMA_SWITCH,
  RANGE_CLEAR,
  RANGE_D2D_COPY,
  RANGE_CAST_FP32_TO_FP16,
  RANGE_CAST_FP16_TO_FP32,
  RANGE_SUM_ALLREDUCE,
  RANGE_MEAN_ALLREDUCE,
  RANGE_CHECK_NAN,
  RANGE_GRAD_SCALING,
  RANGE_ACCUM_METRICS,
  RANGE_ADVANCE_SCALARS,  ///< step, bias corrections, learning rate, dropout counter, after the NaN check
  RANGE_CLIP_NORM,        ///< gradients whose norm over the whole range is too large are scaled down
  RANGE_TRUST_RATIOS,     ///< of LARS, one per weight tensor, from the norms of weights and gradients
  RANGE_GRAD_ACCUMULATE,  ///< adds this micro-batch's gradients × samples; counts them; dropout counter
  RANGE_GRAD_AVERAGE,     ///< gradients of all samples since the last update; clears what was accumulated
  RANGE_FOLD_BN,          ///< scale and bias that batch norm has with its running statistics
};
std::string_view range_op_name(RangeOp op);
/// An optimizer's step over a block of parameters.
inline bool is_update(RangeOp op) {
  return op >= RangeOp::RANGE_UPDATE_BIAS_SGD && op <= RangeOp::RANGE_UPDATE_WEIGHT_LARS_NESTEROV;
}
/// Needs every rank at once.
bool is_collective(RangeOp op);

struct RegionRange {
  Region first, last;
};

/// A use of a tensor by a COMPUTE node.
struct NodeOperand {
  Port port;
  int index = 0;
  TensorId id = NO_TENSOR;
  bool read = false, write = false;
};

struct GraphNode {
  NodeKind kind = NodeKind::COMPUTE;
  std::string name;  ///< "layer1.0.conv1 backward_weight"
  // COMPUTE
  int op = -1;  ///< index into CompiledModel::ops
  Pass pass = Pass::FORWARD;
  std::vector<NodeOperand> operands;
  TensorId workspace = NO_TENSOR;  ///< scratch; NO_TENSOR where no variant needs any
  // RANGE
  RangeOp range_op = RangeOp::RANGE_CLEAR;
  std::vector<RegionRange> in, out;
  /// RANGE_D2D_COPY of one tensor instead of ranges; RANGE_ACCUM_METRICS counts the labels in `from`.
  TensorId from = NO_TENSOR, to = NO_TENSOR;
  std::vector<TensorId> tensors;   ///< RANGE_CLEAR of these instead of ranges
  std::vector<TensorId> excluded;  ///< masters that, with their twins, an update leaves alone
  bool decoupled_decay = false;    ///< an update shrinks weights first: w *= 1 - rate × decay
  bool only_when_clean = false;    ///< does nothing while NAN_FLAG is set
};

struct ComputationGraph {
  std::array<std::vector<GraphNode>, NUM_GRAPHS> parts;
  std::vector<GraphNode>& part(GraphId id) { return parts[static_cast<size_t>(id)]; }
  const std::vector<GraphNode>& part(GraphId id) const { return parts[static_cast<size_t>(id)]; }
};

/// A region pair as (offset, bytes) under one plan, looked up once, at capture.
std::pair<int64_t, int64_t> resolve_region_bounds(const MemoryPlan& plan, const RegionRange& range);
/// The slots of `tensors` as (offset, bytes), in order; neighbours are one.
std::vector<std::pair<int64_t, int64_t>> resolve_slots(const MemoryPlan& plan,
                                                       const std::vector<TensorId>& tensors);

}  // namespace tr
