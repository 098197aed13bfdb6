#include "ops/activations/activations_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class ActivationCudaKernels : public OpKernels {
 public:
  explicit ActivationCudaKernels(ActivationKind kind) : kind_(kind) {}

  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    const Activation activation = activation_of(kind_, binding.query.attrs);
    if (binding.pass == Pass::BACKWARD) {
      const Port kept = binding.has(Port::X) ? Port::X : Port::Y;  // whichever the pass reads
      return [stream, activation, operands = elementwise_operands(binding, {{kept}, {Port::DY}}, Port::DX)] {
        launch_activation_backward(activation, operands, stream);
      };
    }
    return [stream, activation, operands = elementwise_operands(binding, {{Port::X}}, Port::Y)] {
      launch_activation_forward(activation, operands, stream);
    };
  }

 private:
  ActivationKind kind_;
};

}  // namespace

#define TR_MAKE_KERNELS(op, KIND)                                         \
  std::unique_ptr<OpKernels> op##_cuda_kernels();                         \
  std::unique_ptr<OpKernels> op##_cuda_kernels() {                        \
    return std::make_unique<ActivationCudaKernels>(ActivationKind::KIND); \
  }
TR_ACTIVATIONS(TR_MAKE_KERNELS)

}  // namespace tr
