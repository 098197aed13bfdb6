/// Launches of the channel scale on CUDA; FP32, FP16 or BF16.
///   maps: [N, H, W, C]   factors: [N, 1, 1, C]
/// Channel padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "renaissance/core/types.h"

namespace tr {

struct ChannelScaleGeometry {
  int64_t images;
  int pixels, channels;                       ///< of one image
  int in_stride, out_stride, factors_stride;  ///< elements from pixel to pixel
};

/// out = in times the image's factors; out may be in.
void launch_channel_scale(DType dtype, const ChannelScaleGeometry& geometry, const void* in,
                          const void* factors, void* out, cudaStream_t stream);
/// sums[n,c]: of dy x over the pixels of image n. The strides of x and dy are in_stride and out_stride.
void launch_channel_scale_sums(DType dtype, const ChannelScaleGeometry& geometry, const void* dy,
                               const void* x, void* sums, cudaStream_t stream);

}  // namespace tr
