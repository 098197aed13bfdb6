#include <cmath>

#include "ops/activations/activation_functions.h"
#include "ops/activations/activations_cuda.h"
#include "ops/support/elementwise.cuh"

namespace tr {
namespace {

/// CUDA's own functions, within two units in the last place. Templates, so that host and device each take
/// theirs.
struct CudaMath {
  template <typename F>
  static constexpr F exp(F x) {
    return ::expf(x);
  }
  template <typename F>
  static constexpr F expm1(F x) {
    return ::expm1f(x);
  }
  template <typename F>
  static constexpr F tanh(F x) {
    return ::tanhf(x);
  }
  template <typename F>
  static constexpr F erf(F x) {
    return ::erff(x);
  }
};

template <typename Function>
struct Forward {
  __device__ float operator()(float x) const { return function.forward(x); }
  Function function;
};
template <typename Function>
struct Backward {
  __device__ float operator()(float kept, float dy) const { return function.backward(kept, dy); }
  Function function;
};

bool is_positive_zero(float value) { return value == 0.0f && !std::signbit(value); }

}  // namespace

void launch_activation_forward(const Activation& activation, const ElementwiseOperands& operands,
                               cudaStream_t stream) {
  activations::with_function<CudaMath>(activation, [&](auto function) {
    device::launch_elementwise<1>(operands, Forward<decltype(function)>{function},
                                  is_positive_zero(function.forward(0.0f)), stream);
  });
}

void launch_activation_backward(const Activation& activation, const ElementwiseOperands& operands,
                                cudaStream_t stream) {
  activations::with_function<CudaMath>(activation, [&](auto function) {
    device::launch_elementwise<2>(operands, Backward<decltype(function)>{function},
                                  is_positive_zero(function.backward(0.0f, 0.0f)), stream);
  });
}

}  // namespace tr
