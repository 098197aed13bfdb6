/// Elementwise loops of the CPU backend: parallel over fixed pieces, vectorized inside, no reductions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/parallel.h"
#include "ops/support/cpu.h"

namespace tr {

/// Why the CPU backend declines `dtype`; empty where it does not.
inline std::string cpu_declines(DType dtype) {
  return dtype == DType::FP32 ? "" : cat("cpu backend computes in fp32 only, not in ", dtype_name(dtype));
}

/// y = max(x, 0), and NaN where x is NaN; in place where x == y.
inline void relu_forward(const float* x, float* y, int64_t items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = x[i] <= 0.0f ? 0.0f : x[i];
  });
}

/// dx = dy where the forward pass let x through, else 0; in place where dy == dx.
inline void relu_backward(const float* y, const float* dy, float* dx, int64_t items) {
  parallel_pieces(items, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
  });
}

}  // namespace tr
