/// Launches of adaptive average pooling on CUDA; FP32, FP16 or BF16.
///   map (x, dx): [N, H, W, C]   pooled (y, dy): [N, P, Q, C]
/// Channel padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "renaissance/core/types.h"

namespace tr {

struct AdaptiveGeometry {
  int64_t images;
  int height, width, out_height, out_width, channels;
  int map_stride, pooled_stride;  ///< elements from pixel to pixel
};

void launch_adaptive_avgpool_forward(DType dtype, const AdaptiveGeometry& geometry, const void* x, void* y,
                                     cudaStream_t stream);
/// Each element of dx gathers from the windows that hold it.
void launch_adaptive_avgpool_backward(DType dtype, const AdaptiveGeometry& geometry, const void* dy, void* dx,
                                      cudaStream_t stream);

}  // namespace tr
