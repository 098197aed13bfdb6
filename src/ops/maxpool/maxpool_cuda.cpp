#include "ops/maxpool/maxpool_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class MaxPoolCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    return binding.pass == Pass::BACKWARD ? backward(binding, cuda(context).stream)
                                          : forward(binding, cuda(context).stream);
  }

 private:
  static int place_stride(const Binding& binding) {
    return static_cast<int>(pixel_stride(binding.tensor(Port::SAVED)));
  }

  static Call forward(const Binding& binding, cudaStream_t stream) {
    const DTensor &x = binding.tensor(Port::X), &y = binding.tensor(Port::Y);
    const bool save = binding.has(Port::SAVED);
    return [stream, dtype = x.dtype, geometry = pool_geometry(binding.query, x, y),
            from = binding.data<const void>(Port::X), to = binding.data<void>(Port::Y),
            place = save ? binding.data<uint8_t>(Port::SAVED) : nullptr,
            stride = save ? place_stride(binding) : 0] {
      launch_maxpool_forward(dtype, geometry, from, to, place, stride, stream);
    };
  }

  static Call backward(const Binding& binding, cudaStream_t stream) {
    const DTensor &dx = binding.tensor(Port::DX), &dy = binding.tensor(Port::DY);
    return [stream, dtype = dx.dtype, geometry = pool_geometry(binding.query, dx, dy),
            from = binding.data<const void>(Port::DY), place = binding.data<const uint8_t>(Port::SAVED),
            stride = place_stride(binding), to = binding.data<void>(Port::DX)] {
      launch_maxpool_backward(dtype, geometry, from, place, stride, to, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> maxpool_cuda_kernels();
std::unique_ptr<OpKernels> maxpool_cuda_kernels() { return std::make_unique<MaxPoolCudaKernels>(); }

}  // namespace tr
