/// How the CPU kernels of batch normalization walk a map, and the workspace they keep between passes.
#pragma once

#include <omp.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <numeric>

#include "ops/support/cpu.h"

namespace tr::batch_norm {

constexpr int64_t VECTOR = 16;  // floats of the widest register
constexpr int64_t LEAST_COLUMNS = 64;
constexpr int64_t SLAB = 128;       // columns whose sums stay on the stack
constexpr int64_t BLOCK_ROWS = 32;  // rows summed in FP32 before double takes over
constexpr int64_t CHUNK_VALUES = 1 << 15;
constexpr int64_t STREAM_BYTES = 32 << 20;  // a map this large does not stay in the caches until it is read

/// The map as rows of `columns` values, `fold` pixels side by side where channels are few, so that loops over
/// columns fill vector registers. Pixels past the last whole row are the tail.
struct Rows {
  explicit Rows(const Shape& x) : channels(x.c()), pixels(x.n() * x.h() * x.w()) {
    if (channels < LEAST_COLUMNS) {
      fold = (LEAST_COLUMNS + channels - 1) / channels;
      const int64_t aligned = round_up(fold, VECTOR / std::gcd(VECTOR, channels));
      if (aligned * channels <= SLAB) fold = aligned;
    }
    columns = fold * channels;
    rows = pixels / fold;
    tail = pixels % fold;
    chunks = fixed_chunks(rows, std::max(2 * BLOCK_ROWS, CHUNK_VALUES / columns));
  }
  int64_t first(int64_t chunk) const { return rows * chunk / chunks; }
  int64_t tail_offset() const { return rows * columns; }

  int64_t channels, pixels, fold = 1, columns, rows, tail, chunks;
};

/// Two doubles per channel from each chunk: (mean, sum of squares about it) or (sum g, sum g*(x - mean)).
struct Partials {
  static int64_t bytes(const Rows& map) { return map.chunks * 2 * map.channels * int64_t{sizeof(double)}; }
  double* at(int64_t chunk, int64_t which) const { return data + (2 * chunk + which) * channels; }
  double* data;
  int64_t channels;
};

/// What differs from column to column: per-channel values repeated `fold` times.
struct Columns {
  Columns(const Rows& map, WorkspaceSlices& slices) {
    for (float** values : {&mean, &scale, &bias, &x_factor, &constant})
      *values = reinterpret_cast<float*>(slices.take(map.columns * int64_t{sizeof(float)}));
  }
  void set(const Rows& map, float* values, int64_t channel, float value) const {
    for (int64_t i = channel; i < map.columns; i += map.channels) values[i] = value;
  }
  float *mean, *scale, *bias;  // y = (x - mean) * scale + bias
  float *x_factor, *constant;  // dx = scale * g + (x_factor * (x - mean) + constant)
};

/// The walk through the workspace, for offer() and prepare() alike.
struct Scratch {
  Scratch(const Rows& map, WorkspaceSlices slices)
      : partials{reinterpret_cast<double*>(slices.take(Partials::bytes(map))), map.channels},
        columns(map, slices),
        bytes(slices.bytes()) {}
  Partials partials;
  Columns columns;
  int64_t bytes;
};

/// body(chunk) for every chunk. The second pass over a map walks each thread's chunks backwards, to begin
/// with what the first pass left in the caches.
enum class Walk : uint8_t { UP, DOWN };
template <typename Body>
void each_chunk(int64_t chunks, Walk walk, Body body) {
#pragma omp parallel if (chunks > 1)
  {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t first = chunks * thread / threads, last = chunks * (thread + 1) / threads;
    for (int64_t i = first; i < last; ++i) body(walk == Walk::UP ? i : first + last - 1 - i);
  }
}

/// body(first, last) for blocks of channels, in parallel.
template <typename Body>
void each_channel_block(int64_t channels, int64_t chunks, Body body) {
#pragma omp parallel for schedule(static) if (channels * chunks > 8192)
  for (int64_t first = 0; first < channels; first += SLAB) body(first, std::min(first + SLAB, channels));
}

/// Sums over the columns' blocks of one chunk, handed to merge(slab, width, rows, sum0, sum1): sums of
/// term(offset of a value, its column) -> (a, b).
template <typename Term, typename Merge>
void sum_chunk(const Rows& map, int64_t chunk, Term term, Merge merge) {
  const int64_t end = map.first(chunk + 1);
  for (int64_t row = map.first(chunk); row < end; row += BLOCK_ROWS) {
    const int64_t rows = std::min(BLOCK_ROWS, end - row);
    for (int64_t slab = 0; slab < map.columns; slab += SLAB) {
      const int64_t width = std::min(SLAB, map.columns - slab);
      alignas(64) float sum0[SLAB], sum1[SLAB];
      std::fill_n(sum0, width, 0.0f);
      std::fill_n(sum1, width, 0.0f);
      const int64_t base = row * map.columns + slab;
      int64_t r = 0;
      for (; r + 4 <= rows; r += 4) {
        const int64_t o0 = base + r * map.columns, o1 = o0 + map.columns, o2 = o1 + map.columns,
                      o3 = o2 + map.columns;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          const auto [a0, b0] = term(base + j, o0 + j, slab + j);
          const auto [a1, b1] = term(base + j, o1 + j, slab + j);
          const auto [a2, b2] = term(base + j, o2 + j, slab + j);
          const auto [a3, b3] = term(base + j, o3 + j, slab + j);
          sum0[j] += (a0 + a1) + (a2 + a3);
          sum1[j] += (b0 + b1) + (b2 + b3);
        }
      }
      for (; r < rows; ++r) {
        const int64_t offset = base + r * map.columns;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          const auto [a, b] = term(base + j, offset + j, slab + j);
          sum0[j] += a;
          sum1[j] += b;
        }
      }
      merge(base, slab, width, rows, sum0, sum1);
    }
  }
}

/// Terms of one value; a struct, which vectorizes.
struct Terms {
  float a, b;
};

/// Copies past the caches: the line written is not read from memory first. Both ends 16-byte aligned.
inline void stream(const float* from, float* to, int64_t count) {
#ifdef __SSE2__
  for (int64_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
#else
  std::copy_n(from, count, to);
#endif
}

inline void finish_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// out[i] = value(i, column of i) for a whole map.
template <bool STREAM, typename Value>
void write_chunks(const Rows& map, float* out, Value value) {
  each_chunk(map.chunks, Walk::DOWN, [&](int64_t chunk) {
    for (int64_t row = map.first(chunk); row < map.first(chunk + 1); ++row) {
      for (int64_t slab = 0; slab < map.columns; slab += SLAB) {
        const int64_t width = std::min(SLAB, map.columns - slab), base = row * map.columns + slab;
        alignas(64) float line[SLAB];
        float* to = STREAM ? line : out + base;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) to[j] = value(base + j, slab + j);
        if constexpr (STREAM) stream(line, out + base, width);
      }
    }
    if constexpr (STREAM) finish_streams();
  });
}

template <typename Value>
void write_map(const Rows& map, float* out, Value value) {
  if (map.columns % 4 == 0 && map.rows * map.columns * int64_t{sizeof(float)} >= STREAM_BYTES) {
    write_chunks<true>(map, out, value);
  } else {
    write_chunks<false>(map, out, value);
  }
  for (int64_t j = 0; j < map.tail * map.channels; ++j)
    out[map.tail_offset() + j] = value(map.tail_offset() + j, j);
}

}  // namespace tr::batch_norm
