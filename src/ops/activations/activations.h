/// The smooth and the clipped activations: elementwise, y = f(x), any shape.
///   sigmoid      1 / (1 + exp(-x))                      backward keeps y
///   tanh         tanh(x)                                y
///   silu         x sigmoid(x)                           x
///   hardswish    x min(max(x + 3, 0), 6) / 6            x
///   hardsigmoid  min(max(x + 3, 0), 6) / 6              x
///   relu6        min(max(x, 0), 6)                      y
///   elu          x where x > 0, else alpha (exp(x) - 1) y; x where alpha < 0
///   gelu         x Phi(x), Phi of the normal distribution, or with approximate = tanh
///                0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))  x
/// One file per concern serves all of them: activation_functions.h has the mathematics of both backends.
/// NaN stays NaN forward; otherwise, where the formula is silent, PyTorch decides.
/// Sources: docs/ops.md.
#pragma once

#include <string_view>

#include "renaissance/graph/op_spec.h"

/// The operator's name and its kind.
#define TR_ACTIVATIONS(X) \
  X(sigmoid, SIGMOID)     \
  X(tanh, TANH)           \
  X(silu, SILU) X(hardswish, HARDSWISH) X(hardsigmoid, HARDSIGMOID) X(relu6, RELU6) X(elu, ELU) X(gelu, GELU)

namespace tr {

enum class ActivationKind : uint8_t {
  SIGMOID,
  TANH,
  SILU,
  HARDSWISH,
  HARDSIGMOID,
  RELU6,
  ELU,
  GELU,
  GELU_TANH,
};

/// One layer's function.
struct Activation {
  ActivationKind kind;
  float alpha = 1.0f;  ///< of ELU
};

/// `kind` is the operator's; GELU becomes GELU_TANH where the attributes ask for it.
inline Activation activation_of(ActivationKind kind, const Attributes& attrs) {
  if (kind == ActivationKind::ELU) return {kind, static_cast<float>(attrs.number("alpha"))};
  if (kind == ActivationKind::GELU && attrs.text("approximate") == "tanh") return {ActivationKind::GELU_TANH};
  return {kind};
}

}  // namespace tr
