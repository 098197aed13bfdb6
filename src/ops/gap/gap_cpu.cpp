#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

constexpr int64_t SLAB = 128;         // channels whose sums stay on the stack
constexpr int64_t BLOCK_PIXELS = 32;  // pixels summed in FP32 before double takes over

void average_image(const float* x, int64_t pixels, int64_t channels, float* y) {
  for (int64_t slab = 0; slab < channels; slab += SLAB) {
    const int64_t width = std::min(SLAB, channels - slab);
    double total[SLAB] = {};
    for (int64_t block = 0; block < pixels; block += BLOCK_PIXELS) {
      float sum[SLAB] = {};
      const int64_t end = std::min(block + BLOCK_PIXELS, pixels);
      for (int64_t pixel = block; pixel < end; ++pixel) {
        const float* values = x + pixel * channels + slab;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) sum[c] += values[c];
      }
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) total[c] += double{sum[c]};
    }
    for (int64_t c = 0; c < width; ++c)
      y[slab + c] = static_cast<float>(total[c] / static_cast<double>(pixels));
  }
}

void spread_gradient(const float* dy, int64_t pixels, int64_t channels, float* dx) {
  const float weight = 1.0f / static_cast<float>(pixels);
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    float* values = dx + pixel * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) values[c] = dy[c] * weight;
  }
}

class GapCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const Shape& map = binding.query.x[0];
    const int64_t images = map.n(), pixels = map.h() * map.w(), channels = map.c();
    if (binding.pass == Pass::BACKWARD)
      return [=, dy = binding.data<float>(Port::DY), dx = binding.data<float>(Port::DX)] {
#pragma omp parallel for schedule(static)
        for (int64_t n = 0; n < images; ++n)
          spread_gradient(dy + n * channels, pixels, channels, dx + n * pixels * channels);
      };
    return [=, x = binding.data<float>(Port::X), y = binding.data<float>(Port::Y)] {
#pragma omp parallel for schedule(static)
      for (int64_t n = 0; n < images; ++n)
        average_image(x + n * pixels * channels, pixels, channels, y + n * channels);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> gap_cpu_kernels();
std::unique_ptr<OpKernels> gap_cpu_kernels() { return std::make_unique<GapCpuKernels>(); }

}  // namespace tr
