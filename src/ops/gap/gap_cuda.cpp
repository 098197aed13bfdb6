#include "ops/gap/gap_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

GapGeometry geometry_of(const OpQuery& query, const DTensor& map, const DTensor& pooled) {
  const Shape& x = query.x[0];
  const int64_t pixels = x.h() * x.w();
  TR_CHECK(pixels * pixel_stride(map) < int64_t{1} << 30, ShapeError,
           cat(query.layer, ": one image of ", x,
               " is too large for the CUDA kernels; expected fewer than 2^30 elements"));
  return {x.n(), static_cast<int>(pixels), static_cast<int>(x.c()), static_cast<int>(pixel_stride(map)),
          static_cast<int>(pixel_stride(pooled))};
}

class GapCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const bool backward = binding.pass == Pass::BACKWARD;
    const Port map = backward ? Port::DX : Port::X, pooled = backward ? Port::DY : Port::Y;
    return [launch = backward ? launch_gap_backward : launch_gap_forward, stream = cuda(context).stream,
            dtype = binding.tensor(map).dtype,
            geometry = geometry_of(binding.query, binding.tensor(map), binding.tensor(pooled)),
            in = binding.data<const void>(backward ? pooled : map),
            out = binding.data<void>(backward ? map : pooled)] { launch(dtype, geometry, in, out, stream); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> gap_cuda_kernels();
std::unique_ptr<OpKernels> gap_cuda_kernels() { return std::make_unique<GapCudaKernels>(); }

}  // namespace tr
