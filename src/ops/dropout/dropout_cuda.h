/// Launches of dropout on CUDA; FP32, FP16 or BF16, any shape.
///   in: x or dy   out: y or dx, its channel padding becomes zero   mask: bit e % 8 of byte e / 8 for element
///   e
#pragma once

#include <driver_types.h>

#include "ops/support/elementwise.h"

namespace tr {

struct DropoutMask {
  uint8_t* bits;
  int64_t bytes;  ///< with the padding behind the last element's byte, which becomes zero
};

/// What decides the mask: dropout_threshold(), dropout_index_base(), and where the device finds its seed and
/// counter.
struct DropoutDraw {
  uint32_t threshold;
  uint64_t index_base;
  const int32_t *seed, *counter;
};

void launch_dropout_forward(const ElementwiseOperands& operands, const DropoutMask& mask,
                            const DropoutDraw& draw, float scale, cudaStream_t stream);
void launch_dropout_backward(const ElementwiseOperands& operands, const uint8_t* mask, float scale,
                             cudaStream_t stream);

}  // namespace tr
