/// What CUDA kernels share on the host: the streams and library handles a backend lends, checked calls, and
/// the memory of which algorithm was chosen where.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <functional>
#include <string>
#include <string_view>

#include "ops/support/algorithm_cache.h"
#include "renaissance/graph/op_spec.h"

namespace tr {

/// Everything here belongs to one device and one host thread. prepare() may run work on `stream` (to time
/// algorithms) and may overwrite what its node writes; it is never called while the stream is being captured.
/// The Call it returns only enqueues on `stream`, and must be capturable.
class CudaContext : public KernelContext {
 public:
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;  ///< bound to `stream`
  cublasLtHandle_t cublaslt = nullptr;
  AlgorithmCache* algorithms = nullptr;
  int multiprocessors = 0;
  bool deterministic = true;            ///< only algorithms that give the same bits each time
  bool allow_tf32 = false;              ///< FP32 matrix work may round its operands to 10 bits of mantissa
  std::function<void()> before_timing;  ///< called before algorithms are timed; may be empty
  std::function<void(const std::string&)> debug;  ///< takes lines for who looks for a fault; may be empty
};

inline CudaContext& cuda(KernelContext& context) { return static_cast<CudaContext&>(context); }

/// DeviceError "<who>: <what failed>" unless the call succeeded.
void check_cuda(cudaError_t status, std::string_view who);
void check_cublas(cublasStatus_t status, std::string_view who);
void check_cudnn(cudnnStatus_t status, std::string_view who);

/// Why the CUDA backend does not compute in `dtype`; empty where it does (FP32, FP16, BF16).
std::string cuda_declines(DType dtype);

/// Elements from one pixel to the next: the channels with their padding.
inline int64_t pixel_stride(const DTensor& tensor) { return tensor.strides[2]; }
/// N * H * W.
inline int64_t pixels_of(const Shape& shape) { return shape.n() * shape.h() * shape.w(); }

/// Milliseconds of one run of `work` on `stream`: the median of `repeats` after one warm-up.
double time_on_stream(cudaStream_t stream, const Call& work, int repeats);

}  // namespace tr
