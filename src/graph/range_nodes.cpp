// The RANGE nodes of a step: one operation serves the whole model.
#include "graph/wiring.h"

namespace tr {

namespace {

using R = Region;
constexpr RegionRange BIAS_W{R::W_BN_BIAS, R::W_FC_BIAS}, BIAS_G{R::G_BN_BIAS, R::G_FC_BIAS};
constexpr RegionRange BIAS_M{R::M_BN_BIAS, R::M_FC_BIAS}, BIAS_V{R::V_BN_BIAS, R::V_FC_BIAS};
constexpr RegionRange WEIGHT_W{R::W_FC_WEIGHT, R::W_DEEP_CONV}, WEIGHT_G{R::G_FC_WEIGHT, R::G_DEEP_CONV};
constexpr RegionRange WEIGHT_M{R::M_FC_WEIGHT, R::M_DEEP_CONV}, WEIGHT_V{R::V_FC_WEIGHT, R::V_DEEP_CONV};

GraphNode range_node(RangeOp op, std::vector<RegionRange> in, std::vector<RegionRange> out,
                     bool only_when_clean = false) {
  GraphNode node;
  node.kind = NodeKind::RANGE;
  node.name = range_op_name(op);
  node.range_op = op;
  node.in = std::move(in);
  node.out = std::move(out);
  node.only_when_clean = only_when_clean;
  return node;
}

GraphNode copy_node(TensorId from, TensorId to) {
  GraphNode node = range_node(RangeOp::RANGE_D2D_COPY, {}, {});
  node.from = from;
  node.to = to;
  return node;
}

struct UpdateOps {
  RangeOp bias, weight;
};

UpdateOps update_ops(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::SGD:
      return {RangeOp::RANGE_UPDATE_BIAS_SGD, RangeOp::RANGE_UPDATE_WEIGHT_SGD};
    case OptimizerKind::MOMENTUM:
      return {RangeOp::RANGE_UPDATE_BIAS_MOMENTUM, RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM};
    case OptimizerKind::NESTEROV:
      return {RangeOp::RANGE_UPDATE_BIAS_NESTEROV, RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV};
    case OptimizerKind::ADAM:
      return {RangeOp::RANGE_UPDATE_BIAS_ADAM, RangeOp::RANGE_UPDATE_WEIGHT_ADAM};
    case OptimizerKind::ADAMW:
      return {RangeOp::RANGE_UPDATE_BIAS_ADAM, RangeOp::RANGE_UPDATE_WEIGHT_ADAMW};
    case OptimizerKind::LARS:
      break;
  }
  throw Error(ErrorKind::NotSupportedError,
              cat("optimizer ", optimizer_name(kind), " has no range operation"));
}

void append_updates(ComputationGraph& graph, const CompileRequest& request) {
  const PlanConfig& config = request.config;
  // LARS can be planned; compile() refuses to run it.
  if (config.optimizer == OptimizerKind::LARS) return;
  const UpdateOps ops = update_ops(config.optimizer);
  const auto with_moments = [&](RegionRange w, RegionRange m, RegionRange v) {
    std::vector<RegionRange> out{w};
    if (is_condition_enabled(RegionCondition::FIRST_MOMENT, config)) out.push_back(m);
    if (is_condition_enabled(RegionCondition::SECOND_MOMENT, config)) out.push_back(v);
    return out;
  };
  // The bias operations never decay; where decay of everything is asked for, the weight ones serve both
  // blocks.
  const RangeOp bias = request.decay_norm_and_bias ? ops.weight : ops.bias;
  auto& part = graph.part(GraphId::OPTIMIZER);
  part.push_back(range_node(bias, {BIAS_G}, with_moments(BIAS_W, BIAS_M, BIAS_V), true));
  part.push_back(range_node(ops.weight, {WEIGHT_G}, with_moments(WEIGHT_W, WEIGHT_M, WEIGHT_V), true));
}

}  // namespace

void append_range_nodes(ComputationGraph& graph, const CompileRequest& request, bool has_statistics) {
  const PlanConfig& config = request.config;
  auto& input = graph.part(GraphId::INPUT);
  // The CPU's loader fills the input buffers in the arena itself; a device needs a copy from pinned memory.
  if (config.backend == BackendKind::CUDA)
    input.push_back(range_node(RangeOp::RANGE_H2D_COPY_A, {}, {{R::I_A_LABEL, R::I_A_DATA}}));
  input.push_back(copy_node(INPUT_A_LABEL, LABEL));

  // ZERO_GRAD stays empty: every kernel overwrites its gradient.
  if (is_amp(config.precision)) {
    graph.part(GraphId::GRAD_CAST)
        .push_back(range_node(RangeOp::RANGE_CAST_FP16_TO_FP32, {{R::G_FC_WEIGHT_FP16, R::G_DEEP_CONV_FP16}},
                              {WEIGHT_G}));
    graph.part(GraphId::WEIGHT_CAST)
        .push_back(
            range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHT_W}, {{R::A_FC_WEIGHT, R::A_DEEP_CONV}}));
  }
  if (request.target.ranks > 1) {
    auto& exchange = graph.part(GraphId::EXCHANGE);
    for (const RegionRange bucket :
         {RegionRange{R::G_DEEP_CONV, R::G_DEEP_CONV}, RegionRange{R::G_BN_BIAS, R::G_FIRST_CONV}})
      exchange.push_back(range_node(RangeOp::RANGE_MEAN_ALLREDUCE, {bucket}, {bucket}));
    if (has_statistics)
      graph.part(GraphId::STATISTICS)
          .push_back(range_node(RangeOp::RANGE_BN_STATS_ALLREDUCE, {{R::B_NEXT_MEAN, R::B_NEXT_VAR}},
                                {{R::B_NEXT_MEAN, R::B_NEXT_VAR}}));
  }
  auto& watch = graph.part(GraphId::WATCH);
  watch.push_back(range_node(RangeOp::RANGE_CHECK_NAN, {{R::G_BN_BIAS, R::G_DEEP_CONV}}, {}));
  if (config.precision == Precision::FP16)
    watch.push_back(range_node(RangeOp::RANGE_GRAD_SCALING, {}, {{R::G_BN_BIAS, R::G_DEEP_CONV}}));
  watch.push_back(range_node(RangeOp::RANGE_ADVANCE_SCALARS, {}, {}));
  append_updates(graph, request);
  if (has_statistics)
    graph.part(GraphId::STATISTICS)
        .push_back(range_node(RangeOp::RANGE_D2D_COPY, {{R::B_NEXT_MEAN, R::B_NEXT_VAR}},
                              {{R::B_PREV_MEAN, R::B_PREV_VAR}}, true));
  graph.part(GraphId::METRICS)
      .push_back(range_node(RangeOp::RANGE_ACCUM_METRICS, {{R::R_RESULT, R::R_RESULT}},
                            {{R::R_RESULT_ACCUMULATED, R::R_RESULT_ACCUMULATED}}));
}

}  // namespace tr
