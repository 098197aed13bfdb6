#include "ops/layer_norm/layer_norm_cuda.h"

#include "ops/layer_norm/layer_norm.h"
#include "ops/support/channel_slices.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

class LayerNormCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    const int64_t bytes = pass == Pass::BACKWARD
                              ? ChannelSlices(layer_norm_rows(query), query.x[0].c(), 2).workspace_bytes()
                              : 0;
    return {cuda_declines(query.dtype), bytes};
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    const auto optional = [&](Port port, int index) {
      return binding.has(port, index) ? binding.data<float>(port, index) : nullptr;
    };
    const RowShape shape = row_shape(binding, Port::X);
    if (binding.pass == Pass::BACKWARD) {
      const LayerNormBackward backward{shape,
                                       row_map(binding, Port::X),
                                       row_map(binding, Port::DY),
                                       row_map(binding, Port::DX),
                                       binding.data<float>(Port::PARAM, 0),
                                       binding.data<float>(Port::SAVED, 0),
                                       binding.data<float>(Port::SAVED, 1),
                                       binding.data<float>(Port::PARAM_GRAD, 0),
                                       binding.data<float>(Port::PARAM_GRAD, 1),
                                       reinterpret_cast<float*>(binding.workspace)};
      return [stream, backward] { launch_layer_norm_backward(backward, stream); };
    }
    const LayerNormForward forward{shape,
                                   row_map(binding, Port::X),
                                   row_map(binding, Port::Y),
                                   binding.data<float>(Port::PARAM, 0),
                                   binding.data<float>(Port::PARAM, 1),
                                   optional(Port::SAVED, 0),
                                   optional(Port::SAVED, 1),
                                   static_cast<float>(binding.query.attrs.number("epsilon"))};
    return [stream, forward, known = binding.pass == Pass::RECOMPUTE] {
      launch_layer_norm_forward(forward, known, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> layer_norm_cuda_kernels();
std::unique_ptr<OpKernels> layer_norm_cuda_kernels() { return std::make_unique<LayerNormCudaKernels>(); }

}  // namespace tr
