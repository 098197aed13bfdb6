/// RANGE_GRAD_ACCUMULATE and RANGE_GRAD_AVERAGE on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tr {

/// Gradients of one micro-batch, means over its samples, and the sums over all samples since the last update.
/// Both places are aligned to 16 bytes, `elements` is a multiple of 4.
struct AccumulateTask {
  float* gradients = nullptr;
  float* sums = nullptr;
  int64_t elements = 0;
  int32_t samples = 0;                 ///< of this micro-batch
  int32_t* summed_samples = nullptr;   ///< that `sums` hold
  int32_t* dropout_counter = nullptr;  ///< advanced by launch_accumulate()
};
/// sums += gradients * samples.
void launch_accumulate(const AccumulateTask& task, cudaStream_t stream);
/// gradients = (sums + gradients * samples) / all samples; nothing is summed afterwards.
void launch_average(const AccumulateTask& task, cudaStream_t stream);

}  // namespace tr
