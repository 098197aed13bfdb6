#include "ops/support/channel_sums.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

class LayerScaleCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    WorkspaceSlices slices;
    if (pass == Pass::BACKWARD) sums_of(query, slices);
    return {cpu_declines(query.dtype), slices.bytes()};
  }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const OpQuery& query = binding.query;
    const int64_t channels = query.x[0].c(), rows = query.x[0].numel() / channels;
    const auto* x = binding.data<const float>(Port::X);
    if (binding.pass != Pass::BACKWARD)
      return [=, scale = binding.data<const float>(Port::PARAM), y = binding.data<float>(Port::Y)] {
        parallel_rows(rows, channels, [=](int64_t row) {
          const int64_t first = row * channels;
          multiply(x + first, scale, y + first, channels);
        });
      };
    WorkspaceSlices slices(binding.workspace);
    const float* scale = binding.has(Port::PARAM) ? binding.data<const float>(Port::PARAM) : nullptr;
    float* dx = binding.has(Port::DX) ? binding.data<float>(Port::DX) : nullptr;
    return [=, sums = sums_of(query, slices), dy = binding.data<const float>(Port::DY),
            gradient = binding.data<float>(Port::PARAM_GRAD)] {
      sums.run(
          [=](int64_t row, float* block) {
            const float *xs = x + row * channels, *dys = dy + row * channels;
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c) block[c] += xs[c] * dys[c];
            if (dx != nullptr) multiply(dys, scale, dx + row * channels, channels);
          },
          [=](int64_t c, float total) { gradient[c] = total; });
    };
  }

 private:
  static void multiply(const float* in, const float* scale, float* out, int64_t channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) out[c] = in[c] * scale[c];
  }
  static ChannelSums sums_of(const OpQuery& query, WorkspaceSlices& slices) {
    return {query.x[0].numel() / query.x[0].c(), query.x[0].c(), 1, slices};
  }
};

}  // namespace

std::unique_ptr<OpKernels> layer_scale_cpu_kernels();
std::unique_ptr<OpKernels> layer_scale_cpu_kernels() { return std::make_unique<LayerScaleCpuKernels>(); }

}  // namespace tr
