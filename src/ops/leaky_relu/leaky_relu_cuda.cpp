#include "ops/leaky_relu/leaky_relu_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class LeakyReluCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    const auto slope = static_cast<float>(binding.query.attrs.number("negative_slope"));
    if (binding.pass == Pass::BACKWARD) {
      const Port sign = binding.has(Port::X) ? Port::X : Port::Y;  // whichever the pass reads
      return [stream, slope, operands = elementwise_operands(binding, {{sign}, {Port::DY}}, Port::DX)] {
        launch_leaky_relu_backward(operands, slope, stream);
      };
    }
    return [stream, slope, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
      launch_leaky_relu_forward(operands, slope, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> leaky_relu_cuda_kernels();
std::unique_ptr<OpKernels> leaky_relu_cuda_kernels() { return std::make_unique<LeakyReluCudaKernels>(); }

}  // namespace tr
