/// What the warps of a block multiply and add up: partial sums of a tile A B of a matrix product.
#pragma once

#include "ops/fc/fc_ptx.cuh"

namespace tr::fully_connected {

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

/// A tile of the result is M x N, made in steps of K. Each warp has 32x32 of it and a part of every step's K.
template <int M_, int N_, int K_>
struct Tile {
  static constexpr int M = M_, N = N_, K = K_;
  static constexpr int WARPS_M = M / 32, WARPS_N = N / 32, PARTS = WARPS / (WARPS_M * WARPS_N);
  static_assert(WARPS_M * WARPS_N * PARTS == WARPS);
  /// Elements from one row of partial sums to the next: the N, then the sum of A's row.
  static constexpr int SUMS_PITCH = N + 8;
  static constexpr int SUMS = PARTS * M * SUMS_PITCH;

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int m() { return warp() % WARPS_M * 32; }
  static __device__ int n() { return warp() / WARPS_M % WARPS_N * 32; }
  static __device__ int part() { return warp() / (WARPS_M * WARPS_N); }
};

/// How a product's operands are stored, each by rows: A by those of m, else of k; B by those of n, else of k.
/// Only a gated A has a gate, and only where the rows of A are summed are their sums kept.
template <bool A_BY_M_, bool B_BY_N_, bool GATED_, bool SUM_ROWS_>
struct Form {
  static constexpr bool A_BY_M = A_BY_M_, B_BY_N = B_BY_N_, GATED = GATED_, SUM_ROWS = SUM_ROWS_;
};

/// One step's operands in shared memory. Elements of A whose `gate` is <= 0 count as 0; it may be null.
template <typename T>
struct Step {
  const T* a;
  const T* gate;
  int pitch_a;
  const T* b;
  int pitch_b;
};

/// Two elements, those whose gate is <= 0 made 0.
template <typename T>
__device__ uint32_t gated_pair(uint32_t values, uint32_t gates) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const uint32_t zeros = 0;
  return values & ~__hle2_mask(reinterpret_cast<const Pair&>(gates), reinterpret_cast<const Pair&>(zeros));
}

/// A thread's share of the sums in 16 bits, on the tensor cores.
template <typename T, typename TILE, typename FORM>
class Sums {
 public:
  /// `sum_rows`: of A too.
  __device__ void add(const Step<T>& step, bool sum_rows) {
#pragma unroll
    for (int i = 0; i < DEPTHS; ++i) {
      const int k = (TILE::part() * DEPTHS + i) * 16;
      uint32_t left[2][4], right[2][4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        load_a(left[j], step.a, step.pitch_a, TILE::m() + 16 * j, k);
        load_b(right[j], step.b, step.pitch_b, TILE::n() + 16 * j, k);
      }
      if constexpr (FORM::GATED)
        if (step.gate != nullptr) apply_gate(left, step, k);
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n)
          multiply_add<T>(sums_[m][n], left[m], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
      if constexpr (FORM::SUM_ROWS)
        if (sum_rows && TILE::n() == 0)
#pragma unroll
          for (int m = 0; m < 2; ++m) multiply_add<T>(row_sums_[m], left[m], ONES, ONES);
    }
  }

  /// Writes the sums to `to`, [PARTS][M] rows of SUMS_PITCH.
  __device__ void deposit(float* to, bool sum_rows) const {
    constexpr int PITCH = TILE::SUMS_PITCH;
    const int row = TILE::part() * TILE::M + TILE::m() + TILE::lane() / 4, quarter = TILE::lane() % 4;
    float* corner = to + row * PITCH + TILE::n() + quarter * 2;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float* at = corner + 16 * m * PITCH + 8 * n;
        device::store<float, 2>(at, {sums_[m][n][0], sums_[m][n][1]});
        device::store<float, 2>(at + 8 * PITCH, {sums_[m][n][2], sums_[m][n][3]});
      }
    if constexpr (FORM::SUM_ROWS)
      if (sum_rows && TILE::n() == 0 && quarter == 0)
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          to[(row + 16 * m) * PITCH + TILE::N] = row_sums_[m][0];
          to[(row + 16 * m + 8) * PITCH + TILE::N] = row_sums_[m][2];
        }
  }

 private:
  static constexpr int DEPTHS = TILE::K / (16 * TILE::PARTS);
  static_assert(TILE::K % (16 * TILE::PARTS) == 0);
  /// Two elements of 1.
  static constexpr uint32_t ONES = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;

  static __device__ void apply_gate(uint32_t (&left)[2][4], const Step<T>& step, int k) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      uint32_t gates[4];
      load_a(gates, step.gate, step.pitch_a, TILE::m() + 16 * j, k);
#pragma unroll
      for (int i = 0; i < 4; ++i) left[j][i] = gated_pair<T>(left[j][i], gates[i]);
    }
  }
  /// Matrices of 8x8: (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
  static __device__ void load_a(uint32_t (&to)[4], const T* a, int pitch, int m, int k) {
    const int row = TILE::lane() % 8, second = TILE::lane() / 8 % 2 * 8, third = TILE::lane() / 16 * 8;
    if constexpr (FORM::A_BY_M)
      load_matrices<false>(to, a + (m + second + row) * pitch + k + third);
    else
      load_matrices<true>(to, a + (k + third + row) * pitch + m + second);
  }
  /// Matrices of 8x8: (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8).
  static __device__ void load_b(uint32_t (&to)[4], const T* b, int pitch, int n, int k) {
    const int row = TILE::lane() % 8, second = TILE::lane() / 8 % 2 * 8, third = TILE::lane() / 16 * 8;
    if constexpr (FORM::B_BY_N)
      load_matrices<false>(to, b + (n + third + row) * pitch + k + second);
    else
      load_matrices<true>(to, b + (k + second + row) * pitch + n + third);
  }

  float sums_[2][4][4] = {};
  float row_sums_[2][4] = {};
};

/// The same in FP32, by plain multiply-adds: 4 rows and 8 columns for each lane, four of k at a time. Rows
/// and columns of a lane are neighbours where that makes a vector, else apart so that lanes meet different
/// banks.
template <typename TILE, typename FORM>
class Sums<float, TILE, FORM> {
 public:
  __device__ void add(const Step<float>& step, bool sum_rows) {
#pragma unroll 1
    for (int i = 0; i < QUADS; ++i) {
      const int k = (TILE::part() * QUADS + i) * 4;
      Quad left[4], right[8];
#pragma unroll
      for (int j = 0; j < 4; ++j) left[j] = load_a(step.a, step.pitch_a, j, k);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        right[j] = FORM::B_BY_N
                       ? device::load<float, 4>(step.b + column(j) * step.pitch_b + k)
                       : device::load<float, 4>(step.b + (k + j / 2) * step.pitch_b + column(j % 2 * 4));
      if constexpr (FORM::GATED)
        if (step.gate != nullptr) apply_gate(left, step, k);
#pragma unroll
      for (int kk = 0; kk < 4; ++kk)
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const float a = FORM::A_BY_M ? left[m].v[kk] : left[kk].v[m];
#pragma unroll
          for (int n = 0; n < 8; ++n)
            sums_[m][n] =
                fmaf(a, FORM::B_BY_N ? right[n].v[kk] : right[kk * 2 + n / 4].v[n % 4], sums_[m][n]);
        }
      if constexpr (FORM::SUM_ROWS)
        if (sum_rows)
#pragma unroll
          for (int kk = 0; kk < 4; ++kk)
#pragma unroll
            for (int m = 0; m < 4; ++m) row_sums_[m] += FORM::A_BY_M ? left[m].v[kk] : left[kk].v[m];
    }
  }

  __device__ void deposit(float* to, bool sum_rows) const {
    to += TILE::part() * TILE::M * TILE::SUMS_PITCH;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int n = 0; n < 8; ++n) to[row(m) * TILE::SUMS_PITCH + column(n)] = sums_[m][n];
    if constexpr (FORM::SUM_ROWS)
      if (sum_rows && TILE::n() == 0 && TILE::lane() % 4 == 0)
#pragma unroll
        for (int m = 0; m < 4; ++m) to[row(m) * TILE::SUMS_PITCH + TILE::N] = row_sums_[m];
  }

 private:
  using Quad = device::Pack<float, 4>;
  static constexpr int QUADS = TILE::K / (4 * TILE::PARTS);
  static_assert(TILE::K % (4 * TILE::PARTS) == 0);

  static __device__ int row(int i) {
    const int group = TILE::lane() / 4;
    return TILE::m() + (FORM::A_BY_M ? group + 8 * i : 4 * group + i);
  }
  static __device__ int column(int i) {
    const int group = TILE::lane() % 4;
    return TILE::n() + (FORM::B_BY_N ? group + 4 * i : 8 * group + i);
  }
  static __device__ Quad load_a(const float* a, int pitch, int i, int k) {
    return device::load<float, 4>(FORM::A_BY_M ? a + row(i) * pitch + k : a + (k + i) * pitch + row(0));
  }
  static __device__ void apply_gate(Quad (&left)[4], const Step<float>& step, int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Quad gate = load_a(step.gate, step.pitch_a, i, k);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (gate.v[j] <= 0.0f) left[i].v[j] = 0.0f;
    }
  }

  float sums_[4][8] = {};
  float row_sums_[4] = {};
};

}  // namespace tr::fully_connected
