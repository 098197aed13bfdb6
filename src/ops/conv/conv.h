/// 2-D convolution as cross-correlation (no kernel flip), square kernels.
///   x: [N, H, W, C]   weight: [K, R, S, C/groups]   bias: [K]   y: [N, P, Q, K]
///   P = (H + 2*padding - dilation*(R - 1) - 1) / stride + 1
/// With activation "relu" (set by fusion) y = max(., 0); BACKWARD_WEIGHT then masks dy in place where
/// y <= 0, and BACKWARD_DATA, which runs after it, reads the masked dy.
/// Backward keeps x and weight (and y under an activation).
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

struct ConvAttributes {
  explicit ConvAttributes(const Attributes& attrs);
  /// Weight of a convolution over `in_channels`, K,R,S,C/groups.
  Shape weight_shape(int64_t in_channels) const {
    return {out_channels, kernel, kernel, in_channels / groups};
  }
  /// Extent of the dilated kernel.
  int64_t extent() const { return dilation * (kernel - 1) + 1; }

  int64_t out_channels, kernel, stride, padding, dilation, groups;
  bool bias, relu;
};

}  // namespace tr
