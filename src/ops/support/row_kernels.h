/// Maps as rows of channels, for CUDA kernels that give a group of threads a row (a pixel) each.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

/// One map: where it is and how many elements lie between two rows.
struct RowMap {
  void* data = nullptr;
  int64_t stride = 0;
};

struct RowShape {
  DType dtype = DType::FP32;
  int64_t rows = 0;
  int channels = 0;
};

inline RowMap row_map(const Binding& binding, Port port) {
  if (!binding.has(port)) return {};
  return {binding.data<void>(port), binding.tensor(port).strides[2]};
}

inline RowShape row_shape(const Binding& binding, Port port) {
  const DTensor& tensor = binding.tensor(port);
  return {tensor.dtype, tensor.shape.numel() / tensor.shape.c(), static_cast<int>(tensor.shape.c())};
}

}  // namespace tr
