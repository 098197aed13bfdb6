#include "ops/identity/identity_cuda.h"
#include "ops/support/elementwise.cuh"

namespace tr {
namespace {

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void launch_identity(const ElementwiseOperands& operands, cudaStream_t stream) {
  device::launch_elementwise<1>(operands, Identity{}, true, stream);
}

}  // namespace tr
