/// Launch of a copy on CUDA.
#pragma once

#include <driver_types.h>

#include "ops/support/elementwise.h"

namespace tr {

/// y = x, FP32, FP16 or BF16, any shape; y's padding becomes zero. in: {x}, out: y.
void launch_identity(const ElementwiseOperands& operands, cudaStream_t stream);

}  // namespace tr
