#include "ops/adaptive_avgpool/adaptive_avgpool_cuda.h"

#include <algorithm>

#include "ops/support/cuda.h"

namespace tr {
namespace {

AdaptiveGeometry geometry_of(const OpQuery& query, const DTensor& map, const DTensor& pooled) {
  const Shape &x = query.x[0], &y = query.y;
  // The windows' borders are products of sizes.
  const int64_t pixels =
      std::max({x.h() * x.w(), y.h() * y.w(), (x.h() + 1) * (y.h() + 1), (x.w() + 1) * (y.w() + 1)});
  TR_CHECK(pixels * round_up(x.c(), 8) < int64_t{1} << 30, ShapeError,
           cat(query.layer, ": one image of ", x,
               " is too large for the CUDA kernels; expected fewer than 2^30 elements"));
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  return {x.n(),
          narrow(x.h()),
          narrow(x.w()),
          narrow(y.h()),
          narrow(y.w()),
          narrow(x.c()),
          narrow(pixel_stride(map)),
          narrow(pixel_stride(pooled))};
}

class AdaptiveAvgPoolCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const bool backward = binding.pass == Pass::BACKWARD;
    const Port map = backward ? Port::DX : Port::X, pooled = backward ? Port::DY : Port::Y;
    return [launch = backward ? launch_adaptive_avgpool_backward : launch_adaptive_avgpool_forward,
            stream = cuda(context).stream, dtype = binding.tensor(map).dtype,
            geometry = geometry_of(binding.query, binding.tensor(map), binding.tensor(pooled)),
            in = binding.data<const void>(backward ? pooled : map),
            out = binding.data<void>(backward ? map : pooled)] { launch(dtype, geometry, in, out, stream); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> adaptive_avgpool_cuda_kernels();
std::unique_ptr<OpKernels> adaptive_avgpool_cuda_kernels() {
  return std::make_unique<AdaptiveAvgPoolCudaKernels>();
}

}  // namespace tr
