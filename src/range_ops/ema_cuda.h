/// RANGE_EMA_PARAM_UPDATE on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "renaissance/graph/ema.h"

namespace tr {

/// E += (1 - d) (W - E) over a run of parameters; nothing while *nan_flag is set. Both places are aligned to
/// 16 bytes, `elements` is a multiple of 4.
struct EmaTask {
  const float* weights = nullptr;
  float* averages = nullptr;
  int64_t elements = 0;
  const int32_t* nan_flag = nullptr;
  const int32_t* step = nullptr;  ///< updates, this one included
  EmaSpec spec;
};
void launch_ema(const EmaTask& task, cudaStream_t stream);

}  // namespace tr
