/// Launches of average pooling on CUDA; FP32, FP16 or BF16, sums in FP32.
///   map (x, dx): [N, H, W, C]   pooled (y, dy): [N, P, Q, C]
/// The border counts as zeros. Channel padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "ops/support/pool_geometry.h"

namespace tr {

void launch_avgpool_forward(DType dtype, const PoolGeometry& geometry, const void* x, void* y,
                            cudaStream_t stream);
/// Each element of dx gathers from the windows that hold it.
void launch_avgpool_backward(DType dtype, const PoolGeometry& geometry, const void* dy, void* dx,
                             cudaStream_t stream);

}  // namespace tr
