/// Fully connected layer.
///   x: [N, 1, 1, in]   weight: [out, 1, 1, in]   bias: [out]   y: [N, 1, 1, out]   y = x weight^T + bias
/// x may also be the feature map [N, H, W, C] that a flatten() views, in = H*W*C.
/// With activation "relu" (set by fusion) y = max(., 0); BACKWARD_WEIGHT then masks dy in place where
/// y <= 0, and BACKWARD_DATA, which runs after it, reads the masked dy.
/// On CUDA one BACKWARD pass does both, and leaves dy alone.
/// Backward keeps x and weight (and y under an activation).
#pragma once

#include "ops/support/workspace.h"
#include "renaissance/graph/op_spec.h"

namespace tr {

struct FcAttributes {
  explicit FcAttributes(const Attributes& attrs);
  int64_t out_features;
  bool bias, relu;
};

inline int64_t fc_in_features(const Shape& x) { return x.numel() / x.n(); }

/// What a pass through cuBLASLt keeps beside its operands; null where it needs no such thing, and everywhere
/// with slices that have no base.
struct FcCudaWorkspace {
  std::byte* x = nullptr;          ///< x without its channel padding, [N, in]
  std::byte* product = nullptr;    ///< x weight^T, FP32 [N, out]
  std::byte* masked_dy = nullptr;  ///< dy, but 0 where y <= 0; laid out as dy
  std::byte* dx = nullptr;         ///< dx without its channel padding, [N, in]
  std::byte* scratch = nullptr;    ///< workspace_cap_bytes for cuBLASLt
};
FcCudaWorkspace fc_cuda_workspace(const OpQuery& query, Pass pass, WorkspaceSlices& slices);

}  // namespace tr
