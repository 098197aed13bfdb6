/// cuDNN's operation graphs: descriptors that free themselves, the engines that can run a graph, calls of
/// them. https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/graph/op_spec.h"

namespace tr {

/// A backend descriptor; copies share it. set() and finalize() throw DeviceError.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) const;
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) const;
  void set(cudnnBackendAttributeName_t name, int64_t value) const;
  /// FLOAT, DATA_TYPE and modes: one value of the type that `type` stands for.
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) const {
    set(name, type, 1, &value);
  }
  /// Elements written, at most `most`.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  void finalize() const;
  /// finalize() where failing is an answer.
  cudnnStatus_t try_finalize() const { return cudnnBackendFinalize(raw()); }
  cudnnBackendDescriptor_t raw() const { return handle_.get(); }

 private:
  std::shared_ptr<void> handle_;
};

/// Dims in cuDNN's logical order N,C,H,W; for filters K,C,R,S. Strides in elements say the layout.
struct CudnnTensor {
  int64_t id;  ///< unique in its graph
  DType dtype;
  std::array<int64_t, 4> dims;
  std::array<int64_t, 4> strides;
  bool is_virtual = false;  ///< only between two operations of the graph
};
/// [N,H,W,C] with `pixel_stride` elements from pixel to pixel; a filter [K,R,S,C] is one with pixel_stride C.
CudnnTensor nhwc_tensor(int64_t id, DType dtype, const Shape& shape, int64_t pixel_stride);

struct CudnnConvolution {
  int64_t padding, stride, dilation;  ///< equal in height and width
};
enum class CudnnConvolutionKind : uint8_t { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT };

/// What an engine may do.
struct CudnnRules {
  bool deterministic;  ///< the same bits each time
  bool tensor_cores;   ///< for FP32 they mean TF32
};

/// One configuration of one engine; the name is the same in every process with this library version.
struct CudnnEngine {
  std::string name;
  CudnnDescriptor config;
  CudnnDescriptor operations;  ///< what it is a configuration for
};

/// Operations over tensors, all computing in FP32. Copies share their descriptors.
class CudnnGraph {
 public:
  CudnnDescriptor tensor(const CudnnTensor& tensor);
  /// Writes y, x or w as `kind` says and reads the other two.
  void convolution(CudnnConvolutionKind kind, const CudnnConvolution& geometry, const CudnnDescriptor& x,
                   const CudnnDescriptor& w, const CudnnDescriptor& y);
  void add(const CudnnDescriptor& a, const CudnnDescriptor& b, const CudnnDescriptor& sum);
  /// Sum and sum of squares over all but C.
  void statistics(const CudnnDescriptor& x, const CudnnDescriptor& sum, const CudnnDescriptor& squares);

  /// Engines for the operations that obey the rules, the most promising first; none where cuDNN has none.
  std::vector<CudnnEngine> engines(cudnnHandle_t handle, const CudnnRules& rules) const;

  using Pointers = std::vector<std::pair<int64_t, void*>>;
  /// A call of one engine over fixed memory; null where it does not fit the card or the workspace.
  Call plan(cudnnHandle_t handle, const CudnnEngine& engine, const Pointers& pointers, std::byte* workspace,
            int64_t workspace_bytes) const;

 private:
  CudnnDescriptor make(cudnnBackendDescriptorType_t type);

  std::vector<CudnnDescriptor> kept_;  ///< what others refer to
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace tr
