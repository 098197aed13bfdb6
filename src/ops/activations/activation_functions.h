/// The activations as functions of one element, for loops on the CPU and kernels on a card alike:
///   forward(x) = y   backward(kept, dy) = dx, kept being what activations.h says: y or x.
/// `Math` lends exp, expm1, tanh and erf. Everything is free of branches, so that loops over it vectorize.
#pragma once

#include "ops/activations/activations.h"

namespace tr::activations {

template <typename Math>
struct Sigmoid {
  constexpr float forward(float x) const { return 1.0f / (1.0f + Math::exp(-x)); }
  constexpr float backward(float y, float dy) const { return dy * (1.0f - y) * y; }
};

template <typename Math>
struct Tanh {
  constexpr float forward(float x) const { return Math::tanh(x); }
  constexpr float backward(float y, float dy) const { return dy * (1.0f - y * y); }
};

template <typename Math>
struct Silu {
  constexpr float forward(float x) const { return x / (1.0f + Math::exp(-x)); }
  constexpr float backward(float x, float dy) const {
    const float s = 1.0f / (1.0f + Math::exp(-x));
    return dy * s * (1.0f + x * (1.0f - s));
  }
};

constexpr float clip_to_six(float x) { return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x; }

struct HardSwish {
  constexpr float forward(float x) const { return x * clip_to_six(x + 3.0f) / 6.0f; }
  constexpr float backward(float x, float dy) const {
    const float inside = dy * (x / 3.0f + 0.5f);
    return x <= -3.0f ? 0.0f : x >= 3.0f ? dy : inside;
  }
};

struct HardSigmoid {
  constexpr float forward(float x) const { return clip_to_six(x + 3.0f) / 6.0f; }
  constexpr float backward(float x, float dy) const {
    const float inside = dy / 6.0f;
    return (x > -3.0f) & (x < 3.0f) ? inside : 0.0f;
  }
};

struct Relu6 {
  constexpr float forward(float x) const { return clip_to_six(x); }
  constexpr float backward(float y, float dy) const { return (y <= 0.0f) | (y >= 6.0f) ? 0.0f : dy; }
};

/// The derivative alpha exp(x) is y + alpha; a negative alpha hides in y where x was not positive.
template <typename Math>
struct Elu {
  constexpr float forward(float x) const {
    const float below = alpha * Math::expm1(x);
    return x <= 0.0f ? below : x;
  }
  constexpr float backward(float y, float dy) const {
    const float below = dy * (y + alpha);
    return y <= 0.0f ? below : dy;
  }
  float alpha;
};
template <typename Math>
struct EluOfX {
  constexpr float forward(float x) const { return Elu<Math>{alpha}.forward(x); }
  constexpr float backward(float x, float dy) const {
    const float below = dy * (alpha * Math::exp(x));
    return x <= 0.0f ? below : dy;
  }
  float alpha;
};

template <typename Math>
struct Gelu {
  static constexpr float SQRT_HALF = 0.70710678f, INVERSE_SQRT_TWO_PI = 0.39894228f;
  static constexpr float cdf(float x) { return 0.5f * (1.0f + Math::erf(x * SQRT_HALF)); }
  constexpr float forward(float x) const { return x * cdf(x); }
  constexpr float backward(float x, float dy) const {
    const float pdf = INVERSE_SQRT_TWO_PI * Math::exp(-0.5f * x * x);
    return dy * (cdf(x) + x * pdf);
  }
};

/// 0.5 (1 + tanh(u)) is the sigmoid of 2 u.
template <typename Math>
struct GeluTanh {
  static constexpr float TWO_BETA = 1.59576912f, KAPPA = 0.044715f;  // 2 sqrt(2 / pi)
  static constexpr float minus_two_u(float x) { return -TWO_BETA * (x + KAPPA * x * x * x); }
  constexpr float forward(float x) const { return x / (1.0f + Math::exp(minus_two_u(x))); }
  constexpr float backward(float x, float dy) const {
    const float s = 1.0f / (1.0f + Math::exp(minus_two_u(x)));
    const float two_du = TWO_BETA * (1.0f + 3.0f * KAPPA * x * x);
    return dy * (s + x * s * (1.0f - s) * two_du);
  }
};

/// visit(function) with the function that `activation` names.
template <typename Math, typename Visit>
auto with_function(const Activation& activation, Visit visit) {
  switch (activation.kind) {
    case ActivationKind::SIGMOID:
      return visit(Sigmoid<Math>{});
    case ActivationKind::TANH:
      return visit(Tanh<Math>{});
    case ActivationKind::SILU:
      return visit(Silu<Math>{});
    case ActivationKind::HARDSWISH:
      return visit(HardSwish{});
    case ActivationKind::HARDSIGMOID:
      return visit(HardSigmoid{});
    case ActivationKind::RELU6:
      return visit(Relu6{});
    case ActivationKind::ELU:
      return activation.alpha < 0.0f ? visit(EluOfX<Math>{activation.alpha})
                                     : visit(Elu<Math>{activation.alpha});
    case ActivationKind::GELU_TANH:
      return visit(GeluTanh<Math>{});
    default:
      return visit(Gelu<Math>{});
  }
}

}  // namespace tr::activations
