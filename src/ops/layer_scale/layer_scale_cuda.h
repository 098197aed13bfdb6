/// Launches of layer scale on CUDA; maps of FP32, FP16 or BF16, the factors and their gradient FP32. Padding
/// of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "ops/support/row_kernels.h"

namespace tr {

/// out = in * scale of the channel; `out` may be `in`.
void launch_layer_scale(const RowShape& shape, const RowMap& in, const float* scale, const RowMap& out,
                        cudaStream_t stream);

/// gradient[c] = sum of x * dy over the rows; workspace: ChannelSlices(rows, channels, 1).workspace_bytes().
void launch_layer_scale_gradient(const RowShape& shape, const RowMap& x, const RowMap& dy, float* gradient,
                                 float* workspace, cudaStream_t stream);

}  // namespace tr
