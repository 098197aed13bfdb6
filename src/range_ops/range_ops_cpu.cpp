#include "range_ops/range_ops_cpu.h"

#include "comm/all_reduce.h"

namespace tr {

FloatRange float_range(const RangeBinding& binding, const RegionRange& range) {
  const auto [offset, bytes] = resolve_region_bounds(binding.plan, range);
  return {reinterpret_cast<float*>(binding.base + offset), bytes / static_cast<int64_t>(sizeof(float))};
}

Call bind_range_cpu(const RangeBinding& binding) {
  if (is_update(binding.node.range_op)) return bind_update_cpu(binding);
  switch (binding.node.range_op) {
    case RangeOp::RANGE_CLEAR:
    case RangeOp::RANGE_D2D_COPY:
    case RangeOp::RANGE_SEMA_SWITCH:
      return bind_memory_cpu(binding);
    case RangeOp::RANGE_CAST_FP32_TO_FP16:
    case RangeOp::RANGE_CAST_FP16_TO_FP32:
      return bind_cast_cpu(binding);
    case RangeOp::RANGE_CHECK_NAN:
    case RangeOp::RANGE_GRAD_SCALING:
    case RangeOp::RANGE_ACCUM_METRICS:
    case RangeOp::RANGE_ADVANCE_SCALARS:
      return bind_watch_cpu(binding);
    case RangeOp::RANGE_CLIP_NORM:
      return bind_clip_cpu(binding);
    case RangeOp::RANGE_TRUST_RATIOS:
      return bind_trust_cpu(binding);
    case RangeOp::RANGE_EMA_PARAM_UPDATE:
      return bind_ema_cpu(binding);
    case RangeOp::RANGE_GRAD_ACCUMULATE:
    case RangeOp::RANGE_GRAD_AVERAGE:
      return bind_accumulate_cpu(binding);
    case RangeOp::RANGE_FOLD_BN:
      return bind_fold_cpu(binding);
    default:
      break;
  }
  throw Error(ErrorKind::NotSupportedError,
              cat("cpu backend does not offer ", range_op_name(binding.node.range_op)));
}

namespace {

/// Layer by layer: momentum is a layer's own.
Call bind_statistics(const CompiledModel& model, const MemoryPlan& plan,
                     const std::vector<std::byte*>& bases) {
  struct Layer {
    std::vector<float*> means, variances;
    int64_t channels;
    float momentum;
  };
  std::vector<Layer> layers;
  for (const Statistics& statistics : model.statistics) {
    if (statistics.frozen) continue;  // the same on every rank
    Layer layer{{}, {}, statistics.channels, static_cast<float>(statistics.momentum)};
    const auto at = [&](std::byte* base, TensorId id) {
      return reinterpret_cast<float*>(base + plan.tensor(id).offset);
    };
    for (std::byte* base : bases) {
      layer.means.push_back(at(base, statistics.tensors.next_mean));
      layer.variances.push_back(at(base, statistics.tensors.next_var));
    }
    layers.push_back(std::move(layer));
  }
  return [layers = std::move(layers)] {
    for (const Layer& layer : layers)
      all_reduce_statistics(layer.means, layer.variances, layer.channels, layer.momentum);
  };
}

}  // namespace

Call bind_collective_cpu(const GraphNode& node, const CompiledModel& model, const MemoryPlan& plan,
                         const std::vector<std::byte*>& bases) {
  if (node.range_op == RangeOp::RANGE_BN_STATS_ALLREDUCE) return bind_statistics(model, plan, bases);
  const auto [offset, bytes] = resolve_region_bounds(plan, node.out.at(0));
  if (bytes == 0) return {};
  std::vector<float*> arrays;
  for (std::byte* base : bases) arrays.push_back(reinterpret_cast<float*>(base + offset));
  const float scale =
      node.range_op == RangeOp::RANGE_MEAN_ALLREDUCE ? 1.0f / static_cast<float>(bases.size()) : 1.0f;
  return [arrays = std::move(arrays), elements = bytes / static_cast<int64_t>(sizeof(float)), scale] {
    all_reduce_sum(arrays, elements, scale);
  };
}

}  // namespace tr
