#include "ops/relu/relu_cuda.h"
#include "ops/support/elementwise.cuh"

namespace tr {
namespace {

struct Forward {
  __device__ float operator()(float x) const { return x <= 0.0f ? 0.0f : x; }
};
struct Backward {
  __device__ float operator()(float y, float dy) const { return y <= 0.0f ? 0.0f : dy; }
};

}  // namespace

void launch_relu_forward(const ElementwiseOperands& operands, cudaStream_t stream) {
  device::launch_elementwise<1>(operands, Forward{}, true, stream);
}
void launch_relu_backward(const ElementwiseOperands& operands, cudaStream_t stream) {
  device::launch_elementwise<2>(operands, Backward{}, true, stream);
}

}  // namespace tr
