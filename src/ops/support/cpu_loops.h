/// Elementwise loops of the CPU backend: parallel over fixed pieces, vectorized inside, no reductions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/parallel.h"
#include "core/sixteen_bits.h"
#include "ops/support/cpu.h"

namespace tr {

/// Why a kernel written for FP32 declines `dtype`; empty where it does not. FP16 and BF16 then run through
/// ops/support/sixteen_bit_kernels.h.
inline std::string cpu_declines(DType dtype) {
  return dtype == DType::FP32 ? "" : cat("this cpu kernel computes in fp32, not in ", dtype_name(dtype));
}

inline bool is_positive_or_nan(float value) { return !(value <= 0.0f); }
inline bool is_positive_or_nan(uint16_t bf16) { return is_positive_or_nan(Bf16::widen(bf16)); }

/// y = max(x, 0), and NaN where x is NaN; in place where x == y. FP32, or BF16 as its bits.
template <typename T>
void relu_forward(const T* x, T* y, int64_t items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = is_positive_or_nan(x[i]) ? x[i] : T{0};
  });
}

/// dx = dy where the forward pass let x through, else 0; in place where dy == dx.
template <typename T>
void relu_backward(const T* y, const T* dy, T* dx, int64_t items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
    const T* gradient = dy;  // a local, since a capture would be loaded in a branch and stay scalar
#pragma omp simd
    for (int64_t i = first; i < last; ++i) dx[i] = is_positive_or_nan(y[i]) ? gradient[i] : T{0};
  });
}

}  // namespace tr
