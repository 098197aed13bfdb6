/// The card: whether there is one that this build can use, its memory, its library handles.
#pragma once

#include <string>

#include "ops/support/cuda.h"
#include "ops/support/cuda_owned.h"
#include "renaissance/backend/arena_keeper.h"
#include "renaissance/backend/backend.h"

namespace tr {

/// DeviceError with the remedy for: no driver or one too old, no card, a card too old for this build,
/// libraries older than those it was built with.
void require_cuda_device();

/// Bytes of the card that no one uses; DeviceError as above.
int64_t free_device_bytes();
int64_t total_device_bytes();

/// One allocation of device memory per rank, zeroed.
class DeviceArenaAllocator : public ArenaAllocator {
 public:
  std::byte* allocate(int rank, int64_t bytes) override;
  void release(int rank, std::byte* arena, int64_t bytes) noexcept override;
};

/// Owns what a CudaContext lends: two streams, the handles of cuDNN and cuBLASLt, the remembered algorithms.
/// With RENAISSANCE_DEBUG in the environment, debug lines go to standard error.
class CudaDevice {
 public:
  explicit CudaDevice(const Target& target);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  CudaContext& context() { return context_; }
  AlgorithmCache& algorithms() { return algorithms_; }
  cudaStream_t copy_stream() const { return copy_stream_.get(); }

 private:
  AlgorithmCache algorithms_;
  Owned<cudaStream_t> stream_, copy_stream_;
  Owned<cudnnHandle_t> cudnn_;  ///< bound to stream_
  Owned<cublasLtHandle_t> cublaslt_;
  CudaContext context_;
};

/// Host memory that the card reads directly. Allocated once, zeroed.
class PinnedMemory {
 public:
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// A copy of 1 GiB between two buffers and a product of 8192 x 8192 matrices, through cuBLASLt; median of
/// several.
DeviceRates measure_cuda_rates(CudaContext& context, DType dtype);

class CudaEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cuda event"); }
  ~CudaEvent() { cudaEventDestroy(handle_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace tr
