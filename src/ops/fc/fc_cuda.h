/// Launch functions of the fully connected layer on CUDA.
///
/// Tensor-core kernels (FP32: plain multiply-adds) for one launch per pass, at every shape:
///   forward    y[N, out] = act(x[N, in] weight[out, in]^T + bias[out])
///   backward   dweight[out, in] = g^T x,  dbias[out] = sum of g over N,  dx[N, in] = g weight,
///              where g[N, out] is dy, or 0 where `y` is given and <= 0
/// and what a product through cuBLASLt needs around it. x, y, dy, dx, weight and dweight are of `dtype`
/// (FP32, FP16 or BF16), bias and dbias FP32. Weights are dense, the others NHWC with padded channels, which
/// are written as zeros. Sums are FP32 and of an order that only the shape decides. Nothing is kept.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "renaissance/core/types.h"

namespace tr {

/// [rows, cols] in device memory. A row is cols / channels pixels, `pixel_stride` elements apart, of
/// `channels` elements each; rows are `row_stride` elements apart. The first row is aligned to 16 bytes or
/// more.
struct FcMatrix {
  void* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0;
  int64_t channels = 0, pixel_stride = 0;
};

/// `bias` may be null.
void launch_fc_forward(DType dtype, const FcMatrix& x, const void* weight, const float* bias, bool relu,
                       const FcMatrix& y, cudaStream_t stream);

/// `y` (laid out as dy), `dbias` and dx.data may be null.
struct FcBackwardOperands {
  FcMatrix x, dy, dx;
  const void* y = nullptr;
  const void* weight = nullptr;
  void* dweight = nullptr;
  float* dbias = nullptr;
};
void launch_fc_backward(DType dtype, const FcBackwardOperands& operands, cudaStream_t stream);

/// y = act(product + bias), product FP32 [N, out] dense; for FP32 `product` may be y itself.
void launch_fc_epilogue(DType dtype, const float* product, const float* bias, bool relu, const FcMatrix& y,
                        cudaStream_t stream);
/// masked = dy where `y` is null or not <= 0, else 0; dbias = its sums over rows. `masked`, laid out as dy,
/// or `dbias` may be null.
void launch_fc_mask_and_sum(DType dtype, const FcMatrix& dy, const void* y, void* masked, float* dbias,
                            cudaStream_t stream);
/// Copies `channels` elements of each pixel and writes zeros up to `to_stride`.
void launch_fc_copy_channels(DType dtype, const void* from, int64_t from_stride, void* to, int64_t to_stride,
                             int64_t channels, int64_t pixels, cudaStream_t stream);

}  // namespace tr
