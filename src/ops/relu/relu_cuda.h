/// Launches of ReLU on CUDA. Operands of FP32, FP16 or BF16, any shape; padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "ops/support/elementwise.h"

namespace tr {

/// y = max(x, 0), and NaN where x is NaN. in: {x}, out: y.
void launch_relu_forward(const ElementwiseOperands& operands, cudaStream_t stream);
/// dx = dy where the forward pass let x through, else 0. in: {y, dy}, out: dx.
void launch_relu_backward(const ElementwiseOperands& operands, cudaStream_t stream);

}  // namespace tr
