/// Owners of what CUDA and its libraries make: each frees its own, also where a later step throws.
///
///   const auto stream = make_owned<cudaStream_t>([](cudaStream_t* to) { check_cuda(cudaStreamCreate(to),
///   who); });
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <type_traits>

namespace tr {

struct DestroyHandle {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t executable) const { cudaGraphExecDestroy(executable); }
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};

template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyHandle>;

/// What `make(&handle)` makes; where it cannot, it throws.
template <typename Handle, typename Make>
Owned<Handle> make_owned(Make&& make) {
  Handle handle = nullptr;
  make(&handle);
  return Owned<Handle>(handle);
}

}  // namespace tr
