/// The first convolution of a network on tensor cores: 16-bit maps, x of 1 to 4 channels stored as 4, of
/// which the others hold zeros.
///   x: [N, H, W, C], 4 elements per pixel   weight, dw: [K, R, R, C], dense   y, dy: [N, P, Q, K], dense
/// All results depend on the shapes and partial_bytes alone, bit for bit.
#pragma once

#include "ops/conv/conv_cuda.h"

namespace tr {

/// Whether the kernels below compute this convolution with so many bytes of partial sums, on a card that
/// gives a block `shared_bytes` of shared memory.
bool first_layer_takes(DType dtype, const ConvGeometry& geometry, int64_t partial_bytes,
                       int64_t shared_bytes);

/// y = the convolution + bias (FP32 [K]; null: none), then with `relu` 0 where that is <= 0. Unless `sums` is
/// null, also FP32 [2, K]: sums over the pixels of y, as it is stored, and of its squares; there are then no
/// bias and no relu. `partials`, FP32, is used for these.
struct FirstLayerForward {
  const void *x, *weight;
  const float* bias;
  bool relu;
  void* y;
  float *sums, *partials;
  int64_t partial_bytes;
};
void launch_first_layer_forward(DType dtype, const ConvGeometry& geometry, const FirstLayerForward& operands,
                                cudaStream_t stream);

/// dw; `partials`, FP32, holds sums over slices of the pixels.
void launch_first_layer_backward_weight(DType dtype, const ConvGeometry& geometry, const void* x,
                                        const void* dy, void* dw, float* partials, int64_t partial_bytes,
                                        cudaStream_t stream);

}  // namespace tr
