/// ReLU behind a kernel, where an operator has taken it in: on y after a forward pass, on dy before a
/// backward one. In place, FP32 or BF16. Not oneDNN's post-op: that turns NaN into 0 and so hides a diverged
/// training.
#pragma once

#include "ops/support/cpu_loops.h"

namespace tr {

template <typename T>
Call relu_after(const Binding& binding, Call kernel) {
  return [kernel = std::move(kernel), y = binding.data<T>(Port::Y), items = binding.query.y.numel()] {
    kernel();
    relu_forward(y, y, items);
  };
}
inline Call relu_after(const Binding& binding, Call kernel) {
  return binding.query.dtype == DType::FP32 ? relu_after<float>(binding, std::move(kernel))
                                            : relu_after<uint16_t>(binding, std::move(kernel));
}

template <typename T>
Call relu_before(const Binding& binding, Call kernel) {
  return [kernel = std::move(kernel), y = binding.data<const T>(Port::Y), dy = binding.data<T>(Port::DY),
          items = binding.query.y.numel()] {
    relu_backward(y, dy, dy, items);
    kernel();
  };
}
inline Call relu_before(const Binding& binding, Call kernel) {
  return binding.query.dtype == DType::FP32 ? relu_before<float>(binding, std::move(kernel))
                                            : relu_before<uint16_t>(binding, std::move(kernel));
}

}  // namespace tr
