#include "ops/stochastic_depth/stochastic_depth.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

void draw_samples(const StochasticDepthDraw& draw, int32_t seed, int32_t counter, uint8_t* kept,
                  int64_t samples) {
  for (int64_t n = 0; n < samples; ++n) kept[n] = draw.keeps(seed, counter, n) ? 1 : 0;
}

/// out = in times the sample's factor.
void scale_samples(const float* in, const uint8_t* kept, float scale, float* out, int64_t items,
                   int64_t sample_items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t sample = first / sample_items, end = std::min(last, (sample + 1) * sample_items);
      const float factor = kept[sample] != 0 ? scale : 0.0f;
#pragma omp simd
      for (int64_t i = first; i < end; ++i) out[i] = in[i] * factor;
      first = end;
    }
  });
}

class StochasticDepthCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const OpQuery& query = binding.query;
    const int64_t items = query.y.numel(), samples = query.y.n(), sample_items = items / samples;
    const bool backward = binding.pass == Pass::BACKWARD;
    const auto* in = binding.data<const float>(backward ? Port::DY : Port::X);
    auto* out = binding.data<float>(backward ? Port::DX : Port::Y);
    if (binding.pass == Pass::INFERENCE)
      return [=] {
        parallel_pieces(items,
                        [=](int64_t first, int64_t last) { std::copy(in + first, in + last, out + first); });
      };
    const StochasticDepthDraw draw(query);
    auto* kept = binding.data<uint8_t>(Port::SAVED);
    if (binding.pass != Pass::FORWARD)
      return [=, scale = draw.scale] { scale_samples(in, kept, scale, out, items, sample_items); };
    return [=, seed = binding.data<int32_t>(Port::BASELINE, DROPOUT_SEED),
            counter = binding.data<int32_t>(Port::BASELINE, DROPOUT_COUNTER)] {
      draw_samples(draw, *seed, *counter, kept, samples);
      scale_samples(in, kept, draw.scale, out, items, sample_items);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> stochastic_depth_cpu_kernels();
std::unique_ptr<OpKernels> stochastic_depth_cpu_kernels() {
  return std::make_unique<StochasticDepthCpuKernels>();
}

}  // namespace tr
