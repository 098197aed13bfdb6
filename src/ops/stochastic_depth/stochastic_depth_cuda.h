/// Launches of stochastic depth on CUDA; FP32, FP16 or BF16, any shape. Padding of outputs becomes zero.
#pragma once

#include <driver_types.h>

#include "ops/stochastic_depth/stochastic_depth.h"
#include "ops/support/row_kernels.h"

namespace tr {

/// Maps of `samples` equal parts.
struct StochasticDepthMaps {
  RowShape shape;
  RowMap in, out;
  int64_t samples;
};

/// One byte a sample, 1 for kept.
struct StochasticDepthMask {
  uint8_t* kept;
  int64_t bytes;  ///< with the padding behind the last sample's, which becomes zero
};

/// Draws the mask, and y from x by it; `seed` and `counter` lie on the device.
void launch_stochastic_depth_forward(const StochasticDepthMaps& maps, const StochasticDepthMask& mask,
                                     const StochasticDepthDraw& draw, const int32_t* seed,
                                     const int32_t* counter, cudaStream_t stream);
/// out = in times the sample's factor, by the mask; `out` may be `in`.
void launch_stochastic_depth_by_mask(const StochasticDepthMaps& maps, const uint8_t* kept, float scale,
                                     cudaStream_t stream);

}  // namespace tr
