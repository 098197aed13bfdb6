// RANGE_GRAD_ACCUMULATE and RANGE_GRAD_AVERAGE. Each micro-batch's gradients are means over its samples, so
// they count as many times as it has samples; the sum over all of them is divided by all samples once.
#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

Call bind_accumulate(const RangeBinding& binding, const FloatRange& gradients, const FloatRange& sums,
                     int32_t samples) {
  int32_t *count = binding.counter(ACCUMULATED_SAMPLES), *draws = binding.counter(DROPOUT_COUNTER);
  return [=, weight = static_cast<float>(samples)] {
    parallel_pieces(sums.elements, [=, g = gradients.data, sum = sums.data](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) sum[i] += g[i] * weight;
    });
    *count += samples;
    ++*draws;
  };
}

Call bind_average(const RangeBinding& binding, const FloatRange& gradients, const FloatRange& sums,
                  int32_t samples) {
  int32_t* count = binding.counter(ACCUMULATED_SAMPLES);
  return [=, weight = static_cast<float>(samples)] {
    const auto all = static_cast<float>(*count + samples);
    parallel_pieces(sums.elements, [=, g = gradients.data, sum = sums.data](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        g[i] = (sum[i] + g[i] * weight) / all;
        sum[i] = 0.0f;
      }
    });
    *count = 0;
  };
}

}  // namespace

Call bind_accumulate_cpu(const RangeBinding& binding) {
  const bool averages = binding.node.range_op == RangeOp::RANGE_GRAD_AVERAGE;
  const FloatRange gradients = float_range(binding, binding.node.in.at(0)),
                   sums = float_range(binding, binding.node.out.at(averages ? 1 : 0));
  TR_CHECK(
      gradients.elements == sums.elements, ShapeError,
      cat(binding.node.name, ": ", gradients.elements, " gradients do not fit ", sums.elements, " sums"));
  const auto samples = static_cast<int32_t>(binding.plan.tensor(LABEL).shape.n());
  return averages ? bind_average(binding, gradients, sums, samples)
                  : bind_accumulate(binding, gradients, sums, samples);
}

}  // namespace tr
