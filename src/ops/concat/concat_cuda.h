/// Launch of the copies that join and part channels on CUDA; FP32, FP16 or BF16.
#pragma once

#include <driver_types.h>

#include "renaissance/core/types.h"

namespace tr {

/// Of each pixel, `channels` elements from `in` to `out`, then `zeros` elements of padding. Pointers are at
/// the first pixel's first channel to copy, strides are elements from pixel to pixel.
struct ChannelCopy {
  const void* in;
  void* out;
  int64_t pixels;
  int channels, zeros;
  int in_stride, out_stride;
};

void launch_channel_copy(DType dtype, const ChannelCopy& copy, cudaStream_t stream);

}  // namespace tr
