#include "ops/relu/relu_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class ReluCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    if (binding.pass == Pass::BACKWARD)
      return [stream, operands = elementwise_operands(binding, {{Port::Y}, {Port::DY}}, Port::DX)] {
        launch_relu_backward(operands, stream);
      };
    return [stream, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
      launch_relu_forward(operands, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> relu_cuda_kernels();
std::unique_ptr<OpKernels> relu_cuda_kernels() { return std::make_unique<ReluCudaKernels>(); }

}  // namespace tr
