/// Launches of max pooling on CUDA; FP32, FP16 or BF16.
///   map (x, dx): [N, H, W, C]   pooled (y, dy): [N, P, Q, C]   place: [N, P, Q, C] bytes, row * kernel +
///   column of the maximum in its window
/// Padding of outputs becomes zero, that of places too.
#pragma once

#include <driver_types.h>

#include "ops/support/pool_geometry.h"

namespace tr {

/// `place` is null in inference; `place_stride` is its pixel stride in bytes, a multiple of 8.
void launch_maxpool_forward(DType dtype, const PoolGeometry& geometry, const void* x, void* y, uint8_t* place,
                            int place_stride, cudaStream_t stream);
/// Each element of dx gathers from the windows that hold it.
void launch_maxpool_backward(DType dtype, const PoolGeometry& geometry, const void* dy, const uint8_t* place,
                             int place_stride, void* dx, cudaStream_t stream);

}  // namespace tr
