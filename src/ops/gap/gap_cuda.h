/// Launches of global average pooling on CUDA; FP32, FP16 or BF16.
///   x, dx: [N, H, W, C]   y, dy: [N, 1, 1, C]
/// Channel padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "renaissance/core/types.h"

namespace tr {

struct GapGeometry {
  int64_t images;
  int pixels, channels;           ///< of one image
  int map_stride, pooled_stride;  ///< elements from pixel to pixel
};

/// Sums of 32 pixels in FP32, the sums of those in FP64: large maps lose no precision.
void launch_gap_forward(DType dtype, const GapGeometry& geometry, const void* x, void* y,
                        cudaStream_t stream);
void launch_gap_backward(DType dtype, const GapGeometry& geometry, const void* dy, void* dx,
                         cudaStream_t stream);

}  // namespace tr
