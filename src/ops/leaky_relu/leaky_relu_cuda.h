/// Launches of leaky ReLU on CUDA. Operands of FP32, FP16 or BF16, any shape; padding of outputs becomes
/// zero.
#pragma once

#include <driver_types.h>

#include "ops/support/elementwise.h"

namespace tr {

/// y = x where x > 0, else slope * x. in: {x}, out: y.
void launch_leaky_relu_forward(const ElementwiseOperands& operands, float slope, cudaStream_t stream);
/// dx = dy where sign > 0, else slope * dy. in: {sign, dy}, out: dx; sign is y, or x where slope < 0.
void launch_leaky_relu_backward(const ElementwiseOperands& operands, float slope, cudaStream_t stream);

}  // namespace tr
