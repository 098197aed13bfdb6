/// Layer normalization over the channels of each pixel, as torchvision's LayerNorm2d and, for vectors, as
/// PyTorch's LayerNorm(C).
///   x, y: [N, H, W, C]   weight, bias: [C]   mean, inverse_std: [N H W], one of each pixel
///   y = (x - mean) / sqrt(var + epsilon) * weight + bias, var biased
/// Training and inference are the same. Backward keeps x and, in FP32, mean and inverse_std; with them y is
/// recomputed without summing again. Source: J. Ba, J. Kiros, G. Hinton, "Layer normalization", 2016.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

/// N * H * W.
inline int64_t layer_norm_rows(const OpQuery& query) { return query.x[0].numel() / query.x[0].c(); }

}  // namespace tr
