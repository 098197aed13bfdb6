#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

/// out = in where `sign` is positive, else slope * in; a NaN is not positive.
void scale_not_positive(const float* sign, const float* in, float* out, float slope, int64_t items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
    const float less = slope;  // a local, since a capture would be loaded in a branch and stay scalar
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float factor = sign[i] > 0.0f ? 1.0f : less;
      out[i] = factor * in[i];
    }
  });
}

class LeakyReluCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const bool backward = binding.pass == Pass::BACKWARD;
    // Of x and y, whichever the pass reads.
    const auto* sign = binding.data<const float>(binding.has(Port::X) ? Port::X : Port::Y);
    const auto* in = backward ? binding.data<const float>(Port::DY) : sign;
    auto* out = binding.data<float>(backward ? Port::DX : Port::Y);
    const auto slope = static_cast<float>(binding.query.attrs.number("negative_slope"));
    return [sign, in, out, slope, items = binding.query.y.numel()] {
      scale_not_positive(sign, in, out, slope, items);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> leaky_relu_cpu_kernels();
std::unique_ptr<OpKernels> leaky_relu_cpu_kernels() { return std::make_unique<LeakyReluCpuKernels>(); }

}  // namespace tr
