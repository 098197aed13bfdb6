// What watches over a step: the NaN check, the loss scale, the scalars that advance, the sums of metrics.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

bool all_finite(const float* data, int64_t first, int64_t last) {
  constexpr uint32_t EXPONENT = 0x7f800000u;
  uint32_t found = 0;
#pragma omp simd reduction(| : found)
  for (int64_t i = first; i < last; ++i)
    found |= (std::bit_cast<uint32_t>(data[i]) & EXPONENT) == EXPONENT ? 1u : 0u;
  return found == 0;
}

Call bind_check_nan(const RangeBinding& binding) {
  const FloatRange gradients = float_range(binding, binding.node.in.at(0));
  int32_t* flag = binding.counter(NAN_FLAG);
  return [gradients, flag] {
    int32_t found = 0;
    const int64_t chunks = fixed_chunks(gradients.elements, 1 << 14);
#pragma omp parallel for schedule(static) reduction(| : found) if (chunks > 1)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      found |= all_finite(gradients.data, gradients.elements * chunk / chunks,
                          gradients.elements * (chunk + 1) / chunks)
                   ? 0
                   : 1;
    *flag = found;
  };
}

/// Takes the scale out of the gradients of a clean step, then adapts it.
Call bind_grad_scaling(const RangeBinding& binding) {
  const FloatRange gradients = float_range(binding, binding.node.out.at(0));
  const int32_t* flag = binding.counter(NAN_FLAG);
  float* scale = binding.scalar(LOSS_SCALE);
  int32_t* clean_steps = binding.counter(CLEAN_STEPS);
  const auto growth_steps = static_cast<int32_t>(binding.model.request.loss_scale_growth_steps);
  return [=] {
    if (*flag != 0) {
      if (growth_steps > 0) *scale = std::max(*scale * 0.5f, 1.0f);
      *clean_steps = 0;
      return;
    }
    const float unscale = 1.0f / *scale;
    parallel_pieces(gradients.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) gradients.data[i] *= unscale;
    });
    ++*clean_steps;
    if (growth_steps > 0 && *clean_steps >= growth_steps) {
      // Doubling stops where the scale itself would overflow.
      *scale = std::min(*scale * 2.0f, std::numeric_limits<float>::max() / 2.0f);
      *clean_steps = 0;
    }
  };
}

Call bind_advance(const RangeBinding& binding) {
  const int32_t* flag = binding.counter(NAN_FLAG);
  int32_t *step = binding.counter(STEP), *skipped = binding.counter(SKIPPED_STEPS),
          *draws = binding.counter(DROPOUT_COUNTER);
  float *rate = binding.scalar(LEARNING_RATE), *c1 = binding.scalar(BIAS_CORRECTION1),
        *c2 = binding.scalar(BIAS_CORRECTION2);
  const float *beta1 = binding.scalar(BETA1), *beta2 = binding.scalar(BETA2);
  const ScheduleSpec schedule = binding.model.request.schedule;
  return [=] {
    ++*draws;
    if (*flag != 0) {
      ++*skipped;
      return;
    }
    *rate = static_cast<float>(schedule.at(*step));
    ++*step;
    *c1 = static_cast<float>(1.0 - std::pow(static_cast<double>(*beta1), *step));
    *c2 = static_cast<float>(1.0 - std::pow(static_cast<double>(*beta2), *step));
  };
}

/// Sums over samples: this step's means times the samples that count (label ≥ 0).
Call bind_accumulate(const RangeBinding& binding) {
  const DTensor& given = binding.plan.tensor(binding.from);
  const auto* labels = reinterpret_cast<const int32_t*>(binding.base + given.offset);
  const int64_t samples = given.shape.n();
  const float *loss = binding.scalar(LOSS), *top1 = binding.scalar(TOP1), *top5 = binding.scalar(TOP5);
  float *loss_sum = binding.scalar(LOSS_SUM), *top1_sum = binding.scalar(TOP1_SUM),
        *top5_sum = binding.scalar(TOP5_SUM);
  return [=] {
    const auto counted =
        static_cast<float>(std::count_if(labels, labels + samples, [](int32_t label) { return label >= 0; }));
    *loss_sum += *loss * counted;
    *top1_sum += *top1 * counted;
    *top5_sum += *top5 * counted;
  };
}

}  // namespace

Call bind_watch_cpu(const RangeBinding& binding) {
  switch (binding.node.range_op) {
    case RangeOp::RANGE_CHECK_NAN:
      return bind_check_nan(binding);
    case RangeOp::RANGE_GRAD_SCALING:
      return bind_grad_scaling(binding);
    case RangeOp::RANGE_ADVANCE_SCALARS:
      return bind_advance(binding);
    default:
      return bind_accumulate(binding);
  }
}

}  // namespace tr
