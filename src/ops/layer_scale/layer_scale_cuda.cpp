#include "ops/layer_scale/layer_scale_cuda.h"

#include "ops/support/channel_slices.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

class LayerScaleCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    const Shape& x = query.x[0];
    const int64_t bytes =
        pass == Pass::BACKWARD ? ChannelSlices(x.numel() / x.c(), x.c(), 1).workspace_bytes() : 0;
    return {cuda_declines(query.dtype), bytes};
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const cudaStream_t stream = cuda(context).stream;
    const RowShape shape = row_shape(binding, Port::X);
    const RowMap x = row_map(binding, Port::X);
    const float* scale = binding.has(Port::PARAM) ? binding.data<const float>(Port::PARAM) : nullptr;
    if (binding.pass != Pass::BACKWARD)
      return [=, y = row_map(binding, Port::Y)] { launch_layer_scale(shape, x, scale, y, stream); };
    return [=, dy = row_map(binding, Port::DY), dx = row_map(binding, Port::DX),
            gradient = binding.data<float>(Port::PARAM_GRAD),
            workspace = reinterpret_cast<float*>(binding.workspace)] {
      launch_layer_scale_gradient(shape, x, dy, gradient, workspace, stream);
      if (dx.data != nullptr) launch_layer_scale(shape, dy, scale, dx, stream);  // last: dx may be dy
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> layer_scale_cuda_kernels();
std::unique_ptr<OpKernels> layer_scale_cuda_kernels() { return std::make_unique<LayerScaleCudaKernels>(); }

}  // namespace tr
