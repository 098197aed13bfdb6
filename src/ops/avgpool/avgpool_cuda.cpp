#include "ops/avgpool/avgpool_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

class AvgPoolCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const bool backward = binding.pass == Pass::BACKWARD;
    const Port map = backward ? Port::DX : Port::X, pooled = backward ? Port::DY : Port::Y;
    return [launch = backward ? launch_avgpool_backward : launch_avgpool_forward,
            stream = cuda(context).stream, dtype = binding.tensor(map).dtype,
            geometry = pool_geometry(binding.query, binding.tensor(map), binding.tensor(pooled)),
            in = binding.data<const void>(backward ? pooled : map),
            out = binding.data<void>(backward ? map : pooled)] { launch(dtype, geometry, in, out, stream); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> avgpool_cuda_kernels();
std::unique_ptr<OpKernels> avgpool_cuda_kernels() { return std::make_unique<AvgPoolCudaKernels>(); }

}  // namespace tr
