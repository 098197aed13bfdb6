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

/// The named parts of a step, in the order they run.
enum class GraphId : uint8_t {
  INPUT,
  ZERO_GRAD,
  FORWARD,
  BACKWARD,
  GRAD_CAST,
  EXCHANGE,
  WATCH,
  OPTIMIZER,
  WEIGHT_CAST,
  EMA,
  STATISTICS,
  INFERENCE,
  METRICS,
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
  RANGE_UPDATE_WEIGHT_SGD,
  RANGE_UPDATE_WEIGHT_MOMENTUM,
  RANGE_UPDATE_WEIGHT_NESTEROV,
  RANGE_UPDATE_WEIGHT_ADAM,
  RANGE_UPDATE_WEIGHT_ADAMW,
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
};
std::string_view range_op_name(RangeOp op);
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
  TensorId from = NO_TENSOR, to = NO_TENSOR;  ///< RANGE_D2D_COPY of one tensor instead of ranges
  bool only_when_clean = false;               ///< does nothing while NAN_FLAG is set
};

struct ComputationGraph {
  std::array<std::vector<GraphNode>, NUM_GRAPHS> parts;
  std::vector<GraphNode>& part(GraphId id) { return parts[static_cast<size_t>(id)]; }
  const std::vector<GraphNode>& part(GraphId id) const { return parts[static_cast<size_t>(id)]; }
};

/// A region pair as (offset, bytes) under one plan, looked up once, at capture.
std::pair<int64_t, int64_t> resolve_region_bounds(const MemoryPlan& plan, const RegionRange& range);

}  // namespace tr
