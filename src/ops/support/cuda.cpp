#include "ops/support/cuda.h"

#include <algorithm>

namespace tr {

void check_cuda(cudaError_t status, std::string_view who) {
  TR_CHECK(status == cudaSuccess, DeviceError,
           cat(who, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

void check_cublas(cublasStatus_t status, std::string_view who) {
  TR_CHECK(status == CUBLAS_STATUS_SUCCESS, DeviceError,
           cat(who, ": cuBLASLt says ", cublasLtGetStatusString(status)));
}

void check_cudnn(cudnnStatus_t status, std::string_view who) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[256] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  throw Error(ErrorKind::DeviceError,
              cat(who, ": cuDNN says ", cudnnGetErrorString(status), detail[0] == '\0' ? "" : ": ", detail));
}

std::string cuda_declines(DType dtype) {
  if (dtype == DType::FP32 || dtype == DType::FP16 || dtype == DType::BF16) return {};
  return cat("cuda backend computes in fp32, fp16 and bf16, not in ", dtype_name(dtype));
}

double time_on_stream(cudaStream_t stream, const Call& work, int repeats) {
  struct Event {
    Event() { check_cuda(cudaEventCreate(&handle), "timing"); }
    ~Event() { cudaEventDestroy(handle); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    cudaEvent_t handle = nullptr;
  };
  const Event start, end;
  std::vector<double> times;
  work();
  check_cuda(cudaGetLastError(), "timing");
  for (int i = 0; i < repeats; ++i) {
    check_cuda(cudaEventRecord(start.handle, stream), "timing");
    work();
    check_cuda(cudaEventRecord(end.handle, stream), "timing");
    check_cuda(cudaEventSynchronize(end.handle), "timing");
    float ms = 0.0f;
    check_cuda(cudaEventElapsedTime(&ms, start.handle, end.handle), "timing");
    times.push_back(static_cast<double>(ms));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace tr
