/// Fully connected layer.
///   x: [N, 1, 1, in]   weight: [out, 1, 1, in]   bias: [out]   y: [N, 1, 1, out]   y = x weight^T + bias
/// x may also be the feature map [N, H, W, C] that a flatten() views, in = H*W*C.
/// With activation "relu" (set by fusion) y = max(., 0); BACKWARD_WEIGHT then masks dy in place where
/// y <= 0, and BACKWARD_DATA, which runs after it, reads the masked dy.
/// Backward keeps x and weight (and y under an activation).
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

struct FcAttributes {
  explicit FcAttributes(const Attributes& attrs);
  int64_t out_features;
  bool bias, relu;
};

inline int64_t fc_in_features(const Shape& x) { return x.numel() / x.n(); }

}  // namespace tr
