/// Launch of the elementwise sum on CUDA.
#pragma once

#include <driver_types.h>

#include "ops/support/elementwise.h"

namespace tr {

/// y = x0 + x1, FP32, FP16 or BF16, any shape; y's padding becomes zero. in: {x0, x1}, out: y, which may be
/// x0 or x1.
void launch_add(const ElementwiseOperands& operands, cudaStream_t stream);

}  // namespace tr
