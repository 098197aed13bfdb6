/// exp, expm1, tanh and erf in FP32 as arithmetic without branches or calls, so that a loop over them
/// vectorizes. Within 2.5 units in the last place; what would be subnormal becomes 0, NaN stays NaN.
/// Sources: exp and tanh after S. Moshier's Cephes library (single precision); erf after N. Juffa's minimax
/// polynomials, published on Stack Overflow, question 35148198.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tr {

struct VectorMath {
  static constexpr float exp(float x) {
    const Parts e = parts(x);
    const float value = e.power + e.power * e.rest;
    return x < LEAST ? 0.0f : x > MOST ? std::numeric_limits<float>::infinity() : value;
  }

  static constexpr float expm1(float x) {
    const Parts e = parts(x);
    const float value = e.power * e.rest + (e.power - 1.0f);
    return x < LEAST ? -1.0f : x > MOST ? std::numeric_limits<float>::infinity() : value;
  }

  static constexpr float tanh(float x) {
    const float magnitude = x < 0.0f ? -x : x, z = x * x;
    const float large = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
    const float signed_large = x < 0.0f ? -large : large;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * x + x;
    return magnitude < 0.625f ? small : signed_large;
  }

  static constexpr float erf(float x) {
    const float magnitude = x < 0.0f ? -x : x;
    const float t = magnitude > 4.0f ? 4.0f : magnitude, s = t * t;  // erf(4) rounds to 1
    float r = -1.72853470e-5f * t + 3.83197126e-4f;
    r = r * s + (-3.88396438e-3f * t + 2.42546219e-2f);
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    const float large = 1.0f - exp(r);
    const float signed_large = x < 0.0f ? -large : large;
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    const float small = p * x + x;
    return magnitude > 0.927734375f ? signed_large : small;
  }

 private:
  /// exp(x) = power (1 + rest), power = 2^n, for x from LEAST to MOST.
  struct Parts {
    float power, rest;
  };
  static constexpr float LEAST = -87.3365f, MOST = 88.3762f;

  static constexpr Parts parts(float x) {
    constexpr float LOG2_E = 1.44269504f, LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
    constexpr float ROUND = 12582912.0f;  // 1.5 2^23: what is added to it is rounded to an integer
    const float low = x < LEAST ? LEAST : x, clamped = low > MOST ? MOST : low;
    const float shifted = clamped * LOG2_E + ROUND;
    const float n = shifted - ROUND;
    const float r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    // n stands in the lowest bits of `shifted`; the others leave at the top.
    const uint32_t bits = (std::bit_cast<uint32_t>(shifted) << 23) + (uint32_t{127} << 23);
    return {std::bit_cast<float>(bits), p * r * r + r};
  }
};

}  // namespace tr
