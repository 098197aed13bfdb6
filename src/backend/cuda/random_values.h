/// Values for timing: a card draws less power on zeros than on real data, and its clocks show it.
#pragma once

#include <cuda_runtime_api.h>

#include "renaissance/core/types.h"

namespace tr {

/// `elements` of `dtype` (FP32, FP16 or BF16), uniform from -bound to bound, the same ones each time.
void launch_random_values(DType dtype, void* to, int64_t elements, float bound, cudaStream_t stream);

}  // namespace tr
