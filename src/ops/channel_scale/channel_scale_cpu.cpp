#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

constexpr int64_t SLAB = 128;         // channels whose sums stay on the stack
constexpr int64_t BLOCK_PIXELS = 32;  // pixels summed in FP32 before double takes over

struct ChannelScale {
  explicit ChannelScale(const Shape& shape)
      : images(shape.n()), pixels(shape.h() * shape.w()), channels(shape.c()) {}

  /// out = in times the image's factors; in place where out == in.
  void scale(const float* in, const float* factors, float* out) const {
    each_slab([=, this](int64_t n, int64_t slab, int64_t width) {
      const float* factor = factors + n * channels + slab;
      for (int64_t pixel = n * pixels; pixel < (n + 1) * pixels; ++pixel) {
        const float* from = in + pixel * channels + slab;
        float* to = out + pixel * channels + slab;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) to[c] = from[c] * factor[c];
      }
    });
  }

  void sum_products(const float* dy, const float* x, float* sums) const {
    each_slab([=, this](int64_t n, int64_t slab, int64_t width) {
      double total[SLAB] = {};
      for (int64_t block = 0; block < pixels; block += BLOCK_PIXELS) {
        float sum[SLAB] = {};
        const int64_t end = std::min(block + BLOCK_PIXELS, pixels);
        for (int64_t pixel = block; pixel < end; ++pixel) {
          const int64_t at = (n * pixels + pixel) * channels + slab;
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) sum[c] += dy[at + c] * x[at + c];
        }
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) total[c] += double{sum[c]};
      }
      for (int64_t c = 0; c < width; ++c) sums[n * channels + slab + c] = static_cast<float>(total[c]);
    });
  }

  /// body(image, first channel, channels), in parallel.
  template <typename Body>
  void each_slab(Body body) const {
    const int64_t slabs = (channels + SLAB - 1) / SLAB;
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < images * slabs; ++item) {
      const int64_t slab = item % slabs * SLAB;
      body(item / slabs, slab, std::min(SLAB, channels - slab));
    }
  }

  int64_t images, pixels, channels;
};

class ChannelScaleCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const ChannelScale op(binding.query.y);
    const auto optional = [&](Port port, int index) {
      return binding.has(port, index) ? binding.data<float>(port, index) : nullptr;
    };
    if (binding.pass == Pass::BACKWARD)
      return [op, x = optional(Port::X, 0), factors = optional(Port::X, 1),
              dy = binding.data<const float>(Port::DY), dx = optional(Port::DX, 0),
              dfactors = optional(Port::DX, 1)] {
        // The sums first: dx may be dy.
        if (dfactors != nullptr) op.sum_products(dy, x, dfactors);
        if (dx != nullptr) op.scale(dy, factors, dx);
      };
    return [op, x = binding.data<const float>(Port::X, 0), factors = binding.data<const float>(Port::X, 1),
            y = binding.data<float>(Port::Y)] { op.scale(x, factors, y); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> channel_scale_cpu_kernels();
std::unique_ptr<OpKernels> channel_scale_cpu_kernels() { return std::make_unique<ChannelScaleCpuKernels>(); }

}  // namespace tr
