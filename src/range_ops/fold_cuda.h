/// RANGE_FOLD_BN on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tr {

/// One batch norm: scale = weight / sqrt(variance + epsilon), offset = bias - mean * scale, computed in
/// double.
struct FoldTask {
  const float *weight = nullptr, *bias = nullptr, *mean = nullptr, *variance = nullptr;
  float *scale = nullptr, *offset = nullptr;
  int64_t channels = 0;
  double epsilon = 0.0;
};
void launch_fold(const FoldTask& task, cudaStream_t stream);

}  // namespace tr
