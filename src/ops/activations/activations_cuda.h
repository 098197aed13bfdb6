/// Launches of the activations on CUDA. Operands of FP32, FP16 or BF16, any shape; padding of outputs becomes
/// zero.
#pragma once

#include <driver_types.h>

#include "ops/activations/activations.h"
#include "ops/support/elementwise.h"

namespace tr {

/// in: {x}, out: y.
void launch_activation_forward(const Activation& activation, const ElementwiseOperands& operands,
                               cudaStream_t stream);
/// in: {x or y, whichever activations.h says, dy}, out: dx.
void launch_activation_backward(const Activation& activation, const ElementwiseOperands& operands,
                                cudaStream_t stream);

}  // namespace tr
