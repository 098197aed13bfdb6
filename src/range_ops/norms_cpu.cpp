// Norms of gradients and weights: RANGE_CLIP_NORM and RANGE_TRUST_RATIOS. Squares are summed in double, by
// pieces that the problem decides.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"
#include "range_ops/update_segments.h"

namespace tr {

namespace {

float norm_of(const float* data, int64_t elements) {
  std::array<double, 64> sums{};
  const int64_t chunks = fixed_chunks(elements, 1 << 14);
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t last = elements * (chunk + 1) / chunks;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = elements * chunk / chunks; i < last; ++i) sum += double{data[i]} * double{data[i]};
    sums[static_cast<size_t>(chunk)] = sum;
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return static_cast<float>(std::sqrt(total));
}

}  // namespace

/// torch.nn.utils.clip_grad_norm_: gradients *= min(1, max_norm / (norm + 1e-6)).
Call bind_clip_cpu(const RangeBinding& binding) {
  const FloatRange gradients = float_range(binding, binding.node.out.at(0));
  const auto max_norm = static_cast<float>(binding.model.request.clip_norm);
  const int32_t* nan_flag = binding.counter(NAN_FLAG);
  float* factor = binding.scalar(GRADIENT_FACTOR);
  return [=] {
    if (*nan_flag != 0) return;
    *factor = std::min(1.0f, max_norm / (norm_of(gradients.data, gradients.elements) + 1e-6f));
    if (*factor == 1.0f) return;
    parallel_pieces(gradients.elements, [=, f = *factor](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) gradients.data[i] *= f;
    });
  };
}

/// coefficient × |w| / (|g| + decay × |w| + epsilon), and 1 where a norm is 0.
Call bind_trust_cpu(const RangeBinding& binding) {
  struct Tensor {
    const float *w, *g;
    int64_t elements;
    float* ratio;
  };
  const GraphNode& node = binding.node;
  const float *gradients = float_range(binding, node.in.at(0)).data,
              *weights = float_range(binding, node.in.at(1)).data;
  std::vector<Tensor> tensors;
  for (const UpdateSegment& segment : update_segments(node, binding.model, binding.plan))
    tensors.push_back({weights + segment.first, gradients + segment.first, segment.elements,
                       binding.floats(segment.trust)});
  if (tensors.empty()) return {};
  const int32_t* nan_flag = binding.counter(NAN_FLAG);
  const float *coefficient = binding.scalar(TRUST_COEFFICIENT), *decay = binding.scalar(WEIGHT_DECAY),
              *epsilon = binding.scalar(EPSILON);
  return [=, tensors = std::move(tensors)] {
    if (*nan_flag != 0) return;
    for (const Tensor& t : tensors) {
      const float w = norm_of(t.w, t.elements), g = norm_of(t.g, t.elements);
      *t.ratio = w > 0.0f && g > 0.0f ? *coefficient * w / (g + *decay * w + *epsilon) : 1.0f;
    }
  };
}

}  // namespace tr
