#include "ops/channel_scale/channel_scale_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

int stride_of(const DTensor& tensor) { return static_cast<int>(pixel_stride(tensor)); }

ChannelScaleGeometry geometry_of(const OpQuery& query, const DTensor& in, const DTensor& out,
                                 const DTensor& factors) {
  const int64_t pixels = query.y.h() * query.y.w();
  TR_CHECK(pixels * pixel_stride(out) < int64_t{1} << 30, ShapeError,
           cat(query.layer, ": one image of ", query.y,
               " is too large for the CUDA kernels; expected fewer than 2^30 elements"));
  return {query.y.n(),   static_cast<int>(pixels), static_cast<int>(query.y.c()),
          stride_of(in), stride_of(out),           stride_of(factors)};
}

class ChannelScaleCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    return binding.pass == Pass::BACKWARD ? backward(binding, cuda(context).stream)
                                          : forward(binding, cuda(context).stream);
  }

 private:
  static Call forward(const Binding& binding, cudaStream_t stream) {
    const DTensor &x = binding.tensor(Port::X, 0), &factors = binding.tensor(Port::X, 1);
    return
        [stream, dtype = x.dtype, geometry = geometry_of(binding.query, x, binding.tensor(Port::Y), factors),
         in = binding.data<const void>(Port::X, 0), by = binding.data<const void>(Port::X, 1),
         out = binding.data<void>(Port::Y)] { launch_channel_scale(dtype, geometry, in, by, out, stream); };
  }

  static Call backward(const Binding& binding, cudaStream_t stream) {
    std::vector<Call> calls;
    const DTensor& dy = binding.tensor(Port::DY);
    const auto* gradient = binding.data<const void>(Port::DY);
    // The sums first: dx may be dy.
    if (binding.has(Port::DX, 1))
      calls.push_back(
          [stream, dtype = dy.dtype, gradient, x = binding.data<const void>(Port::X, 0),
           geometry = geometry_of(binding.query, binding.tensor(Port::X, 0), dy, binding.tensor(Port::DX, 1)),
           sums = binding.data<void>(Port::DX, 1)] {
            launch_channel_scale_sums(dtype, geometry, gradient, x, sums, stream);
          });
    if (binding.has(Port::DX, 0))
      calls.push_back(
          [stream, dtype = dy.dtype, gradient, factors = binding.data<const void>(Port::X, 1),
           geometry = geometry_of(binding.query, dy, binding.tensor(Port::DX, 0), binding.tensor(Port::X, 1)),
           dx = binding.data<void>(Port::DX, 0)] {
            launch_channel_scale(dtype, geometry, gradient, factors, dx, stream);
          });
    return [calls = std::move(calls)] {
      for (const Call& call : calls) call();
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> channel_scale_cuda_kernels();
std::unique_ptr<OpKernels> channel_scale_cuda_kernels() {
  return std::make_unique<ChannelScaleCudaKernels>();
}

}  // namespace tr
