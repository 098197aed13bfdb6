#include "ops/dropout/dropout_cuda.h"

#include "ops/dropout/dropout.h"
#include "ops/identity/identity_cuda.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

class DropoutCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    if (binding.pass == Pass::INFERENCE)
      return [stream, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
        launch_identity(operands, stream);
      };
    const double probability = binding.query.attrs.number("probability");
    const float scale = dropout_scale(probability);
    auto* bits = binding.data<uint8_t>(Port::SAVED);
    if (binding.pass == Pass::BACKWARD)
      return [stream, bits, scale, operands = elementwise_operands(binding, {{Port::DY}}, Port::DX)] {
        launch_dropout_backward(operands, bits, scale, stream);
      };
    const DropoutMask mask{bits, binding.tensor(Port::SAVED).physical_elements()};
    const DropoutDraw draw{dropout_threshold(probability), dropout_index_base(binding.query.layer),
                           binding.data<const int32_t>(Port::BASELINE, DROPOUT_SEED),
                           binding.data<const int32_t>(Port::BASELINE, DROPOUT_COUNTER)};
    return [stream, mask, draw, scale, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
      launch_dropout_forward(operands, mask, draw, scale, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> dropout_cuda_kernels();
std::unique_ptr<OpKernels> dropout_cuda_kernels() { return std::make_unique<DropoutCudaKernels>(); }

}  // namespace tr
