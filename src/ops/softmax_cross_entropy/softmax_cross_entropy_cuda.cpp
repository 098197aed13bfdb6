#include "ops/softmax_cross_entropy/softmax_cross_entropy_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class SoftmaxCrossEntropyCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override {
    return {cuda_declines(query.dtype), query.x[0].n() * int64_t{sizeof(SampleLoss)}};
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const DTensor& x = binding.tensor(Port::X);
    const Shape& shape = binding.query.x[0];
    TR_CHECK(shape.n() * pixel_stride(x) < int64_t{1} << 31, ShapeError,
             cat(binding.query.layer, ": logits are ", shape, "; the CUDA kernels take fewer than 2^31"));
    const bool training = binding.pass == Pass::FORWARD, has_dx = binding.has(Port::DX);
    const bool mixes = training && binding.query.attrs.flag("mix");
    const auto scalar = [&](BaselineId id) { return binding.data<float>(Port::BASELINE, id); };
    const LossOperands operands{x.dtype,
                                static_cast<int>(shape.n()),
                                static_cast<int>(shape.c()),
                                static_cast<int>(pixel_stride(x)),
                                has_dx ? static_cast<int>(pixel_stride(binding.tensor(Port::DX))) : 0,
                                binding.data<const void>(Port::X),
                                binding.data<const int32_t>(Port::BASELINE, LABEL),
                                mixes ? binding.data<const BatchMix>(Port::BASELINE, INPUT_A_MIX) : nullptr,
                                training ? scalar(LABEL_SMOOTHING) : nullptr,
                                training ? scalar(LOSS_SCALE) : nullptr,
                                has_dx ? binding.data<void>(Port::DX) : nullptr,
                                training ? nullptr : binding.data<int32_t>(Port::BASELINE, PREDICTED_LABEL),
                                scalar(LOSS),
                                scalar(TOP1),
                                scalar(TOP5),
                                reinterpret_cast<SampleLoss*>(binding.workspace)};
    return [operands, stream = cuda(context).stream] { launch_softmax_cross_entropy(operands, stream); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> softmax_cross_entropy_cuda_kernels();
std::unique_ptr<OpKernels> softmax_cross_entropy_cuda_kernels() {
  return std::make_unique<SoftmaxCrossEntropyCudaKernels>();
}

}  // namespace tr
