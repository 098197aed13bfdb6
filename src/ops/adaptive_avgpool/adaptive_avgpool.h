/// Mean over windows that cover the map evenly, whatever its size.
///   x: [N, H, W, C]   y: [N, size, size, C]
///   y[n,p,q] = mean of x[n,h,w] over h from floor(p H / size) to ceil((p + 1) H / size) - 1, w likewise
/// Backward keeps nothing. A map of size × size is its own output: then there is no layer.
/// Source: PyTorch's AdaptiveAvgPool2d.
#pragma once

#include <cstdint>

namespace tr {

/// Windows along one axis of `size` inputs and `outputs` outputs; plain enough for device code.
template <typename Int = int64_t>
struct AdaptiveAxis {
  constexpr AdaptiveAxis(Int axis_size, Int axis_outputs) : size(axis_size), outputs(axis_outputs) {}

  constexpr Int first_input(Int output) const { return output * size / outputs; }
  constexpr Int end_input(Int output) const { return ((output + 1) * size + outputs - 1) / outputs; }
  /// The windows that hold an input are first_output … end_output - 1.
  constexpr Int first_output(Int input) const { return input * outputs / size; }
  constexpr Int end_output(Int input) const { return ((input + 1) * outputs + size - 1) / size; }
  constexpr Int inputs_of(Int output) const { return end_input(output) - first_input(output); }

  Int size, outputs;
};

}  // namespace tr
