/// RANGE_D2D_COPY and the range casts on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "renaissance/core/types.h"

namespace tr {

/// Copies any number of bytes between places aligned to 16; does nothing while *nan_flag is set (null: always
/// copies). A kernel, since in a graph it starts sooner than a copy node.
void launch_copy(const void* from, void* to, int64_t bytes, const int32_t* nan_flag, cudaStream_t stream);

/// FP32 to and from `dtype`, FP16 or BF16. `elements` is a multiple of 4, both places are aligned to 16
/// bytes.
void launch_narrow(const float* from, void* to, DType dtype, int64_t elements, cudaStream_t stream);
void launch_widen(const void* from, float* to, DType dtype, int64_t elements, cudaStream_t stream);

}  // namespace tr
