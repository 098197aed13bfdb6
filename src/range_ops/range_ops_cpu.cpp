#include "range_ops/range_ops_cpu.h"

#include "comm/all_reduce.h"

namespace tr {

FloatRange float_range(const RangeBinding& binding, const RegionRange& range) {
  const auto [offset, bytes] = resolve_region_bounds(binding.plan, range);
  return {reinterpret_cast<float*>(binding.base + offset), bytes / static_cast<int64_t>(sizeof(float))};
}

Call bind_range_cpu(const RangeBinding& binding) {
  switch (binding.node.range_op) {
    case RangeOp::RANGE_UPDATE_BIAS_SGD:
    case RangeOp::RANGE_UPDATE_BIAS_MOMENTUM:
    case RangeOp::RANGE_UPDATE_BIAS_NESTEROV:
    case RangeOp::RANGE_UPDATE_BIAS_ADAM:
    case RangeOp::RANGE_UPDATE_WEIGHT_SGD:
    case RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM:
    case RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_ADAM:
    case RangeOp::RANGE_UPDATE_WEIGHT_ADAMW:
      return bind_update_cpu(binding);
    case RangeOp::RANGE_CLEAR:
    case RangeOp::RANGE_D2D_COPY:
      return bind_memory_cpu(binding);
    case RangeOp::RANGE_CHECK_NAN:
    case RangeOp::RANGE_GRAD_SCALING:
    case RangeOp::RANGE_ACCUM_METRICS:
    case RangeOp::RANGE_ADVANCE_SCALARS:
      return bind_watch_cpu(binding);
    default:
      break;
  }
  throw Error(ErrorKind::NotSupportedError,
              cat("cpu backend does not offer ", range_op_name(binding.node.range_op)));
}

Call bind_collective_cpu(const GraphNode& node, const MemoryPlan& plan,
                         const std::vector<std::byte*>& bases) {
  const auto arrays = [&](const RegionRange& range) {
    std::vector<float*> list;
    for (std::byte* base : bases)
      list.push_back(reinterpret_cast<float*>(base + resolve_region_bounds(plan, range).first));
    return list;
  };
  const auto elements = [&](const RegionRange& range) {
    return resolve_region_bounds(plan, range).second / static_cast<int64_t>(sizeof(float));
  };
  if (elements(node.out.at(0)) == 0) return {};
  if (node.range_op == RangeOp::RANGE_BN_STATS_ALLREDUCE) {
    // The two regions mirror each other slot by slot, so one loop serves all layers.
    const RegionRange means{Region::B_NEXT_MEAN, Region::B_NEXT_MEAN},
        variances{Region::B_NEXT_VAR, Region::B_NEXT_VAR};
    return [mean = arrays(means), variance = arrays(variances), n = elements(means)] {
      all_reduce_statistics(mean, variance, n);
    };
  }
  const bool is_mean = node.range_op == RangeOp::RANGE_MEAN_ALLREDUCE;
  const float scale = is_mean ? 1.0f / static_cast<float>(bases.size()) : 1.0f;
  return [list = arrays(node.out[0]), n = elements(node.out[0]), scale] { all_reduce_sum(list, n, scale); };
}

}  // namespace tr
