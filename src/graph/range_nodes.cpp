// The RANGE nodes of a step: one operation serves the whole model.
#include "graph/wiring.h"

namespace tr {

namespace {

using R = Region;
constexpr RegionRange ALL_W{R::W_BN_BIAS, R::W_DEEP_CONV}, ALL_E{R::E_BN_BIAS, R::E_DEEP_CONV};
constexpr RegionRange ALL_G{R::G_BN_BIAS, R::G_DEEP_CONV}, ALL_GA{R::GA_BN_BIAS, R::GA_DEEP_CONV};
constexpr RegionRange PREV{R::B_PREV_MEAN, R::B_PREV_VAR}, NEXT{R::B_NEXT_MEAN, R::B_NEXT_VAR};
constexpr RegionRange BIAS_W{R::W_BN_BIAS, R::W_FC_BIAS}, BIAS_G{R::G_BN_BIAS, R::G_FC_BIAS};
constexpr RegionRange BIAS_M{R::M_BN_BIAS, R::M_FC_BIAS}, BIAS_V{R::V_BN_BIAS, R::V_FC_BIAS};
constexpr RegionRange WEIGHT_W{R::W_FC_WEIGHT, R::W_DEEP_CONV}, WEIGHT_G{R::G_FC_WEIGHT, R::G_DEEP_CONV};
constexpr RegionRange WEIGHT_N{R::N_FC_WEIGHT, R::N_DEEP_CONV};
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
      return {RangeOp::RANGE_UPDATE_BIAS_LARS, RangeOp::RANGE_UPDATE_WEIGHT_LARS};
    case OptimizerKind::LARS_NESTEROV:
      return {RangeOp::RANGE_UPDATE_BIAS_LARS_NESTEROV, RangeOp::RANGE_UPDATE_WEIGHT_LARS_NESTEROV};
  }
  throw Error(ErrorKind::NotSupportedError,
              cat("optimizer ", optimizer_name(kind), " has no range operation"));
}

std::vector<TensorId> frozen_masters(const CompiledModel& model, bool weights) {
  std::vector<TensorId> masters;
  for (const Parameter& parameter : model.parameters)
    if (parameter.frozen && is_weight_role(parameter.spec.role) == weights)
      masters.push_back(parameter.tensors.master);
  return masters;
}

void append_updates(CompiledModel& model) {
  const CompileRequest& request = model.request;
  const PlanConfig& config = request.config;
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
  auto& part = model.graph.part(GraphId::OPTIMIZER);
  const auto append = [&](GraphNode node, bool weights) {
    node.excluded = frozen_masters(model, weights);
    node.decoupled_decay = request.decoupled_decay;
    part.push_back(std::move(node));
  };
  std::vector<RegionRange> weight_in{WEIGHT_G};
  if (is_lars(config.optimizer)) {
    GraphNode trust = range_node(RangeOp::RANGE_TRUST_RATIOS, {WEIGHT_G, WEIGHT_W}, {WEIGHT_N}, true);
    trust.workspace = model.norm_sums;
    append(std::move(trust), true);
    weight_in.push_back(WEIGHT_N);
  }
  append(range_node(bias, {BIAS_G}, with_moments(BIAS_W, BIAS_M, BIAS_V), true), false);
  append(range_node(ops.weight, weight_in, with_moments(WEIGHT_W, WEIGHT_M, WEIGHT_V), true), true);
}

GraphNode weight_cast() {
  return range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHT_W}, {{R::A_FC_WEIGHT, R::A_DEEP_CONV}});
}

/// Of all ranks, where there are several.
void exchange_statistics(std::vector<GraphNode>& part, const CompileRequest& request) {
  if (request.target.ranks > 1) part.push_back(range_node(RangeOp::RANGE_BN_STATS_ALLREDUCE, {NEXT}, {NEXT}));
}

/// The statistics that a step produced come into force.
void keep_statistics(std::vector<GraphNode>& part) {
  part.push_back(range_node(RangeOp::RANGE_D2D_COPY, {NEXT}, {PREV}, true));
}

/// Where several micro-batches make one update. The statistics of those without one come into force at once,
/// unless they are not finite themselves: their gradients are not looked at before the update.
void append_accumulation(ComputationGraph& graph, const CompileRequest& request, bool has_statistics) {
  if (!request.config.accumulates) return;
  graph.part(GraphId::ACCUMULATE).push_back(range_node(RangeOp::RANGE_GRAD_ACCUMULATE, {ALL_G}, {ALL_GA}));
  graph.part(GraphId::GRAD_AVERAGE)
      .push_back(range_node(RangeOp::RANGE_GRAD_AVERAGE, {ALL_G, ALL_GA}, {ALL_G, ALL_GA}));
  if (!has_statistics) return;
  auto& part = graph.part(GraphId::MICRO_STATISTICS);
  exchange_statistics(part, request);
  part.push_back(range_node(RangeOp::RANGE_CHECK_NAN, {NEXT}, {}));
  keep_statistics(part);
}

void append_ema(ComputationGraph& graph, const PlanConfig& config) {
  if (!config.has_ema) return;
  graph.part(GraphId::EMA).push_back(range_node(RangeOp::RANGE_EMA_PARAM_UPDATE, {ALL_W}, {ALL_E}, true));
  auto& change = graph.part(GraphId::EMA_SWITCH);
  change.push_back(range_node(RangeOp::RANGE_SEMA_SWITCH, {ALL_E}, {ALL_W}));
  if (!is_amp(config.precision)) return;
  change.push_back(weight_cast());
  // The copies of the averages are read by evaluation alone.
  graph.part(GraphId::EVAL_SETUP_EMA)
      .push_back(range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {{R::E_FC_WEIGHT, R::E_DEEP_CONV}},
                            {{R::E_FC_WEIGHT_FP16, R::E_DEEP_CONV_FP16}}));
}

void append_folding(ComputationGraph& graph, const PlanConfig& config, bool has_statistics) {
  if (!config.bn_folded || !has_statistics) return;
  const auto fold = [&](GraphId part, RegionRange weights) {
    graph.part(part).push_back(
        range_node(RangeOp::RANGE_FOLD_BN, {weights, PREV}, {{R::W_EQ_BIAS, R::W_EQ_SCALE}}));
  };
  fold(GraphId::EVAL_SETUP, {R::W_BN_BIAS, R::W_BN_WEIGHT});
  if (config.has_ema) fold(GraphId::EVAL_SETUP_EMA, {R::E_BN_BIAS, R::E_BN_WEIGHT});
}

/// Reads the labels where the loader left them: the loss's copy is gone by the end of a step.
GraphNode metrics_node() {
  GraphNode node = range_node(RangeOp::RANGE_ACCUM_METRICS, {{R::R_RESULT, R::R_RESULT}},
                              {{R::R_RESULT_ACCUMULATED, R::R_RESULT_ACCUMULATED}});
  node.from = INPUT_A_LABEL;
  return node;
}

}  // namespace

void append_range_nodes(CompiledModel& model) {
  ComputationGraph& graph = model.graph;
  const CompileRequest& request = model.request;
  const PlanConfig& config = request.config;
  const bool has_statistics = !model.statistics.empty();
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
    graph.part(GraphId::WEIGHT_CAST).push_back(weight_cast());
  }
  if (request.target.ranks > 1) {
    auto& exchange = graph.part(GraphId::EXCHANGE);
    for (const RegionRange bucket :
         {RegionRange{R::G_DEEP_CONV, R::G_DEEP_CONV}, RegionRange{R::G_BN_BIAS, R::G_FIRST_CONV}})
      exchange.push_back(range_node(RangeOp::RANGE_MEAN_ALLREDUCE, {bucket}, {bucket}));
  }
  auto& watch = graph.part(GraphId::WATCH);
  watch.push_back(range_node(RangeOp::RANGE_CHECK_NAN, {ALL_G}, {}));
  if (config.precision == Precision::FP16)
    watch.push_back(range_node(RangeOp::RANGE_GRAD_SCALING, {}, {ALL_G}));
  if (request.clip_norm > 0.0) {
    watch.push_back(range_node(RangeOp::RANGE_CLIP_NORM, {}, {ALL_G}, true));
    watch.back().workspace = model.norm_sums;
  }
  watch.push_back(range_node(RangeOp::RANGE_ADVANCE_SCALARS, {}, {}));
  append_updates(model);
  if (has_statistics) {
    exchange_statistics(graph.part(GraphId::STATISTICS), request);
    keep_statistics(graph.part(GraphId::STATISTICS));
  }
  append_accumulation(graph, request, has_statistics);
  append_ema(graph, config);
  append_folding(graph, config, has_statistics);
  graph.part(GraphId::METRICS).push_back(metrics_node());
}

}  // namespace tr
