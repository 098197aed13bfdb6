/// Device kernels around cuDNN's convolutions, and convolutions for what cuDNN has no engine for.
/// Maps are NHWC with `stride` elements from pixel to pixel, in FP32, FP16 or BF16; arithmetic is FP32.
/// Weights are dense [K, R, S, C/groups] of the maps' type. All results depend on the shapes alone, bit for
/// bit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "renaissance/core/types.h"

namespace tr {

struct FeatureMap {
  int64_t pixels, channels, stride;
};

struct ConvGeometry {
  int images, height, width, channels;      ///< x
  int out_height, out_width, out_channels;  ///< y
  int kernel, stride, padding, dilation, groups;
  int x_stride, y_stride;  ///< elements from pixel to pixel
};

/// y of the convolution, channel padding left alone.
void launch_direct_forward(DType dtype, const ConvGeometry& geometry, const void* x, const void* weight,
                           void* y, cudaStream_t stream);
/// dx likewise.
void launch_direct_backward_data(DType dtype, const ConvGeometry& geometry, const void* dy,
                                 const void* weight, void* dx, cudaStream_t stream);
/// dw; sums over slices of the pixels go through `partials`, as many as fit in partial_bytes.
void launch_direct_backward_weight(DType dtype, const ConvGeometry& geometry, const void* x, const void* dy,
                                   void* dw, float* partials, int64_t partial_bytes, cudaStream_t stream);

/// `to` [to_rows, to_columns] = `from` [from_rows, from_columns], cut off or filled up with zeros.
void launch_copy_matrix(DType dtype, const void* from, int64_t from_rows, int64_t from_columns, void* to,
                        int64_t to_rows, int64_t to_columns, cudaStream_t stream);

/// y = y + bias (FP32 [C]; null: none), then with `relu` 0 where that is <= 0 (NaN stays). Channel padding
/// becomes 0.
void launch_bias_relu(DType dtype, void* y, const FeatureMap& map, const float* bias, bool relu,
                      cudaStream_t stream);
/// Channel padding becomes 0.
void launch_zero_padding(DType dtype, void* y, const FeatureMap& map, cudaStream_t stream);
/// dy = 0 where y <= 0, over `elements` of both.
void launch_relu_mask(DType dtype, const void* y, void* dy, int64_t elements, cudaStream_t stream);

/// FP32 sums [C] over the pixels, and of squares unless null. `partials`: FP64, ChannelSumGrid's
/// partial_bytes.
void launch_channel_sums(DType dtype, const void* map, const FeatureMap& shape, double* partials, float* sums,
                         float* squares, cudaStream_t stream);

}  // namespace tr
