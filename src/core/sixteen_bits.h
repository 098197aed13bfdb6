/// FP16 and BF16 to and from FP32, without branches, so that loops over them become vector code.
///
/// Narrowing rounds to nearest even; what does not fit FP16 becomes infinite, NaN stays NaN. Widening is
/// exact. FP16 after F. Giesen, https://gist.github.com/rygorous/2156668 (float_to_half_fast3_rtne,
/// half_to_float).
#pragma once

#include <bit>
#include <cstdint>

#include "renaissance/core/error.h"
#include "renaissance/core/types.h"

namespace tr {

inline bool is_16bit(DType dtype) { return dtype == DType::FP16 || dtype == DType::BF16; }

struct Bf16 {
  static uint16_t narrow(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
  static float widen(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }
};

struct Fp16 {
  static uint16_t narrow(float value) {
    constexpr uint32_t INFINITE = 0x7c00u, QUIET = 0x7e00u, HALF = 126u << 23;
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    // Below 2^-14 a multiple of 2^-24, which is the last bit of a sum with 1/2.
    const uint32_t small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(HALF)) - HALF;
    uint32_t result = magnitude < 0x38800000u ? small : normal;
    result = magnitude >= 0x477ff000u ? INFINITE : result;  // 65520 and above
    result = magnitude > 0x7f800000u ? QUIET : result;
    return static_cast<uint16_t>(result | (bits >> 16 & 0x8000u));
  }
  static float widen(uint16_t value) {
    constexpr uint32_t EXPONENT = 0x0f800000u, REBIAS = 112u << 23, LEAST = 113u << 23;
    const uint32_t shifted = (uint32_t{value} & 0x7fffu) << 13, exponent = shifted & EXPONENT;
    const uint32_t normal = shifted + REBIAS, infinite = normal + REBIAS;
    // A subnormal is a fraction of 2^-14: what is above 2^-14 in a number with that exponent.
    const auto small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(shifted + LEAST) - std::bit_cast<float>(LEAST));
    uint32_t result = exponent == EXPONENT ? infinite : normal;
    result = exponent == 0 ? small : result;
    return std::bit_cast<float>(result | (uint32_t{value} & 0x8000u) << 16);
  }
};

/// body(Fp16{}) or body(Bf16{}). TypeError for another type.
template <typename Body>
decltype(auto) with_16bit(DType dtype, Body body) {
  TR_CHECK(is_16bit(dtype), TypeError,
           cat("16-bit elements: ", dtype_name(dtype), "; expected fp16 or bf16"));
  return dtype == DType::FP16 ? body(Fp16{}) : body(Bf16{});
}

template <typename Type>
void widen(Type, const uint16_t* from, float* to, int64_t elements) {
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) to[i] = Type::widen(from[i]);
}
template <typename Type>
void narrow(Type, const float* from, uint16_t* to, int64_t elements) {
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) to[i] = Type::narrow(from[i]);
}

/// `pixels` dense pixels to and from pixels that are `stride` elements apart. What lies beyond the channels
/// is made 0, and not read.
template <typename Type>
void narrow_pixels(Type, const float* from, int64_t pixels, int64_t channels, uint16_t* to, int64_t stride) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel, from += channels, to += stride) {
    for (int64_t c = 0; c < channels; ++c) to[c] = Type::narrow(from[c]);
    for (int64_t c = channels; c < stride; ++c) to[c] = 0;
  }
}
template <typename Type>
void widen_pixels(Type, const uint16_t* from, int64_t stride, int64_t pixels, int64_t channels, float* to) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel, from += stride, to += channels)
    for (int64_t c = 0; c < channels; ++c) to[c] = Type::widen(from[c]);
}

}  // namespace tr
