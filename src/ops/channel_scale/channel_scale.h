/// A factor for each channel of each image, as squeeze-and-excitation has it.
///   x0: [N, H, W, C]   x1: [N, 1, 1, C]   y[n,h,w,c] = x0[n,h,w,c] x1[n,c]
///   dx0[n,h,w,c] = dy[n,h,w,c] x1[n,c]   dx1[n,c] = sum over h, w of dy[n,h,w,c] x0[n,h,w,c]
/// Backward keeps x1, and x0 where x1 needs its gradient.
/// Source: J. Hu, L. Shen, G. Sun, "Squeeze-and-excitation networks", CVPR 2018.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

/// Why the inputs cannot be multiplied where they lie; empty where they can. A view's channels are not those
/// of the map it looks at.
std::string channel_scale_declines(const OpQuery& query);

}  // namespace tr
