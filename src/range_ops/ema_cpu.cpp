// RANGE_EMA_PARAM_UPDATE and RANGE_SEMA_SWITCH: one loop over all parameters. Slot padding holds zeros in
// both and keeps them.
#include <cstring>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

/// E += (1 - d) (W - E): where both are equal they stay so, to the bit.
Call bind_average(const RangeBinding& binding, const FloatRange& weights, const FloatRange& averages) {
  const int32_t *nan_flag = binding.counter(NAN_FLAG), *step = binding.counter(STEP);
  return [=, spec = binding.model.request.ema] {
    if (*nan_flag != 0) return;
    const auto share = static_cast<float>(1.0 - spec.at(*step));
    parallel_pieces(averages.elements, [=, w = weights.data, e = averages.data](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) e[i] += share * (w[i] - e[i]);
    });
  };
}

}  // namespace

Call bind_ema_cpu(const RangeBinding& binding) {
  const FloatRange from = float_range(binding, binding.node.in.at(0)),
                   to = float_range(binding, binding.node.out.at(0));
  TR_CHECK(from.elements == to.elements, ShapeError,
           cat(binding.node.name, ": ", from.elements, " elements do not fit ", to.elements));
  if (to.elements == 0) return {};
  if (binding.node.range_op == RangeOp::RANGE_EMA_PARAM_UPDATE) return bind_average(binding, from, to);
  return [from, to] { std::memcpy(to.data, from.data, static_cast<size_t>(to.elements) * sizeof(float)); };
}

}  // namespace tr
