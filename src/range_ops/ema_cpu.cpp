// RANGE_EMA_PARAM_UPDATE: one loop over all parameters. Slot padding holds zeros in both and keeps them.
#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

Call bind_ema_cpu(const RangeBinding& binding) {
  const FloatRange weights = float_range(binding, binding.node.in.at(0)),
                   averages = float_range(binding, binding.node.out.at(0));
  TR_CHECK(weights.elements == averages.elements, ShapeError,
           cat(binding.node.name, ": ", weights.elements, " elements do not fit ", averages.elements));
  if (averages.elements == 0) return {};
  const int32_t *nan_flag = binding.counter(NAN_FLAG), *step = binding.counter(STEP);
  // E += (1 - d) (W - E): where both are equal they stay so, to the bit.
  return [=, spec = binding.model.request.ema] {
    if (*nan_flag != 0) return;
    const auto share = static_cast<float>(1.0 - spec.at(*step));
    parallel_pieces(averages.elements, [=, w = weights.data, e = averages.data](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) e[i] += share * (w[i] - e[i]);
    });
  };
}

}  // namespace tr
