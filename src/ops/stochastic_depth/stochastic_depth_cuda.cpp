#include "ops/stochastic_depth/stochastic_depth_cuda.h"

#include "ops/identity/identity_cuda.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

class StochasticDepthCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    if (binding.pass == Pass::INFERENCE)
      return [stream, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
        launch_identity(operands, stream);
      };
    const bool backward = binding.pass == Pass::BACKWARD;
    const Port in = backward ? Port::DY : Port::X, out = backward ? Port::DX : Port::Y;
    const StochasticDepthMaps maps{row_shape(binding, in), row_map(binding, in), row_map(binding, out),
                                   binding.query.y.n()};
    const StochasticDepthDraw draw(binding.query);
    auto* kept = binding.data<uint8_t>(Port::SAVED);
    if (binding.pass != Pass::FORWARD)
      return [=, scale = draw.scale] { launch_stochastic_depth_by_mask(maps, kept, scale, stream); };
    const StochasticDepthMask mask{kept, binding.tensor(Port::SAVED).physical_elements()};
    return [=, seed = binding.data<const int32_t>(Port::BASELINE, DROPOUT_SEED),
            counter = binding.data<const int32_t>(Port::BASELINE, DROPOUT_COUNTER)] {
      launch_stochastic_depth_forward(maps, mask, draw, seed, counter, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> stochastic_depth_cuda_kernels();
std::unique_ptr<OpKernels> stochastic_depth_cuda_kernels() {
  return std::make_unique<StochasticDepthCudaKernels>();
}

}  // namespace tr
