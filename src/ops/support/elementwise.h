/// The operands of an elementwise CUDA kernel: tensors of equally many elements, each with a layout of its
/// own (the padding of its channels, a view of another shape).
#pragma once

#include <initializer_list>

#include "renaissance/graph/op_spec.h"

namespace tr {

/// Element e is at e / channels * stride + e % channels; what lies between channels and stride is padding.
struct ElementMap {
  int64_t channels = 1, stride = 1;

  bool is_dense() const { return channels == stride; }
  /// Whether each element has the same place in both.
  bool same_places(const ElementMap& other) const {
    return (is_dense() && other.is_dense()) || (channels == other.channels && stride == other.stride);
  }
};

inline ElementMap element_map(const DTensor& tensor) { return {tensor.shape.c(), tensor.strides[2]}; }

struct ElementwiseOperands {
  DType dtype = DType::FP32;
  int64_t elements = 0;  ///< without padding
  std::array<const void*, 2> in{};
  std::array<ElementMap, 2> in_map{};
  void* out = nullptr;
  ElementMap out_map;
};

struct OperandName {
  Port port;
  int index = 0;
};

/// One or two `inputs` and the `output` of a node.
inline ElementwiseOperands elementwise_operands(const Binding& binding,
                                                std::initializer_list<OperandName> inputs, Port output) {
  const DTensor& out = binding.tensor(output);
  ElementwiseOperands operands{out.dtype, out.shape.numel(),          {},
                               {},        binding.data<void>(output), element_map(out)};
  size_t place = 0;
  for (const OperandName& input : inputs) {
    operands.in[place] = binding.data<const void>(input.port, input.index);
    operands.in_map[place] = element_map(binding.tensor(input.port, input.index));
    ++place;
  }
  return operands;
}

}  // namespace tr
