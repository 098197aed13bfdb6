/// Launches of layer normalization on CUDA; maps of FP32, FP16 or BF16, everything else FP32. Padding of
/// outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "ops/support/row_kernels.h"

namespace tr {

struct LayerNormForward {
  RowShape shape;
  RowMap x, y;
  const float *weight, *bias;
  float *mean, *inverse_std;  ///< [rows]; null in inference
  float epsilon;
};
/// y, mean and inverse_std; or y alone, from the two, where they are `known`.
void launch_layer_norm_forward(const LayerNormForward& forward, bool known, cudaStream_t stream);

struct LayerNormBackward {
  RowShape shape;
  RowMap x, dy, dx;  ///< dx has no data where it is not wanted, and may be dy
  const float *weight, *mean, *inverse_std;
  float *weight_grad, *bias_grad;
  float* workspace;  ///< ChannelSlices(rows, channels, 2).workspace_bytes()
};
void launch_layer_norm_backward(const LayerNormBackward& backward, cudaStream_t stream);

}  // namespace tr
