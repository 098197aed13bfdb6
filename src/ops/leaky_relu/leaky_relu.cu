#include <cmath>

#include "ops/leaky_relu/leaky_relu_cuda.h"
#include "ops/support/elementwise.cuh"

namespace tr {
namespace {

struct Backward {
  __device__ float operator()(float sign, float dy) const { return (sign > 0.0f ? 1.0f : slope) * dy; }
  float slope;
};
struct Forward {
  __device__ float operator()(float x) const { return (x > 0.0f ? 1.0f : slope) * x; }
  float slope;
};

/// A negative slope would leave -0 in the padding.
bool keeps_zero(float slope) { return !std::signbit(slope); }

}  // namespace

void launch_leaky_relu_forward(const ElementwiseOperands& operands, float slope, cudaStream_t stream) {
  device::launch_elementwise<1>(operands, Forward{slope}, keeps_zero(slope), stream);
}
void launch_leaky_relu_backward(const ElementwiseOperands& operands, float slope, cudaStream_t stream) {
  device::launch_elementwise<2>(operands, Backward{slope}, keeps_zero(slope), stream);
}

}  // namespace tr
