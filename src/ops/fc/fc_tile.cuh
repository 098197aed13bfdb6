/// How one block makes a tile of a matrix product: its operands run through a ring of stages in shared
/// memory, several steps ahead of the sums, so that few tiles keep much of the memory's bandwidth busy.
#pragma once

#include <algorithm>

#include "ops/fc/fc_sums.cuh"

namespace tr::fully_connected {

using device::from_float;
using device::Pack;
using device::to_float;
using device::VECTOR;

/// How a row is read.
enum class Access : uint8_t {
  VECTORS,  ///< 16 bytes at once
  PIXELS    ///< one element at a time, skipping channel padding
};

/// An operand that is in shared memory as a whole before the first step.
enum class Resident : uint8_t { NONE, A, B };

/// A matrix to read. Elements whose `gate`, of the same layout, is <= 0 count as 0.
template <typename T>
struct Source {
  const T* data;
  const T* gate;
  int row_stride;
  int rows, cols;
  int channels, pixel_stride;

  __device__ bool has(int row, int col) const { return row < rows && col < cols; }
};

/// A matrix to write.
template <typename T>
struct Destination {
  T* data;
  const float* bias;
  int row_stride;
  int rows, cols;
  int channels, pixel_stride;
  bool vectors, relu;
};

__host__ __device__ constexpr int tiles(int items, int size) { return (items + size - 1) / size; }

template <typename T>
__device__ Pack<T, VECTOR<T>> load_pixels(const Source<T>& from, const T* data, int row, int col) {
  Pack<T, VECTOR<T>> values;
  int channel = col % from.channels;
  const T* pixel = data + int64_t{row} * from.row_stride + int64_t{col / from.channels} * from.pixel_stride;
#pragma unroll
  for (int i = 0; i < VECTOR<T>; ++i) {
    values.v[i] = from.has(row, col + i) ? pixel[channel] : from_float<T>(0.0f);
    if (++channel == from.channels) {
      channel = 0;
      pixel += from.pixel_stride;
    }
  }
  return values;
}

/// One step's ROWS x COLS piece of an operand. Rows are padded by 16 bytes against bank conflicts.
template <typename T, int ROWS, int COLS>
struct Piece {
  static constexpr int V = VECTOR<T>, PITCH = COLS + V, SIZE = ROWS * PITCH;

  /// Starts to copy it from `data`, laid out as `from`.
  template <Access ACCESS>
  static __device__ void fetch(T* shared, const Source<T>& from, const T* data, int row0, int col0) {
    constexpr int COUNT = ROWS * COLS / (V * THREADS);
    static_assert(ROWS * COLS % (V * THREADS) == 0);
#pragma unroll(ACCESS == Access::VECTORS ? COUNT : 1)
    for (int i = 0; i < COUNT; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * THREADS;
      const int row = index / (COLS / V), col = index % (COLS / V) * V;
      T* at = shared + row * PITCH + col;
      if constexpr (ACCESS == Access::VECTORS) {
        const bool inside = from.has(row0 + row, col0 + col);
        copy_async(at, inside ? data + int64_t{row0 + row} * from.row_stride + (col0 + col) : data, inside);
      } else {
        device::store<T, V>(at, load_pixels(from, data, row0 + row, col0 + col));
      }
    }
  }
};

/// 8 elements of 16 bits.
using Words = Pack<uint32_t, 4>;

/// 8 pixels of one 16-bit channel, stored in 8 bytes each.
template <typename T>
__device__ Words load_single_channel(const Source<T>& from, int row, int col) {
  const T* start = from.data + int64_t{row} * from.row_stride + int64_t{4} * col;
  Words two_pixels[4], values;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    two_pixels[i] = device::load<uint32_t, 4>(reinterpret_cast<const uint32_t*>(start + 8 * i));
#pragma unroll
  for (int i = 0; i < 4; ++i) values.v[i] = (two_pixels[i].v[0] & 0xffff) | two_pixels[i].v[2] << 16;
  return values;
}

/// The rows x cols piece at (row0, col0) of such pixels, for all blocks of a cluster: each block reads a
/// share and gives it to all, since what is read is four times what is kept. The caller has arrived at the
/// cluster's barrier once, so that all blocks are known to run; afterwards all of the piece is there.
template <int CLUSTER, typename T>
__device__ void gather(T* shared, int pitch, const Source<T>& from, int row0, int col0, int rows, int cols) {
  constexpr int BATCH = 2, STRIDE = CLUSTER * THREADS;
  const int per_row = cols / 8, count = rows * per_row, rank = cluster_rank();
  Words values[BATCH];
  const auto load = [&](int start) {
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int index = start + i * STRIDE;
      const int row = row0 + index / per_row, col = col0 + index % per_row * 8;
      values[i] = index < count && from.has(row, col) ? load_single_channel(from, row, col) : Words{};
    }
  };
  const int first = rank * THREADS + static_cast<int>(threadIdx.x);
  load(first);
  cluster_wait();
  for (int start = first; start < count; start += BATCH * STRIDE) {
    if (start != first) load(start);
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int index = start + i * STRIDE;
      if (index >= count) break;
      T* at = shared + index / per_row * pitch + index % per_row * 8;
      for (int peer = 0; peer < CLUSTER; ++peer) store_to_peer(at, (rank + peer) % CLUSTER, values[i]);
    }
  }
  cluster_arrive();
  cluster_wait();
}

/// The bias of columns `col`…, zeros where there is none.
template <typename T>
__device__ Pack<float, VECTOR<T>> load_bias(const Destination<T>& to, int col) {
  Pack<float, VECTOR<T>> bias;
#pragma unroll
  for (int i = 0; i < VECTOR<T>; ++i)
    bias.v[i] = to.bias != nullptr && col + i < to.cols ? to.bias[col + i] : 0.0f;
  return bias;
}

/// Writes what `values` becomes with bias and activation to columns `col`… of `row`, and the channel padding
/// that belongs to them.
template <typename T>
__device__ void write_vector(const Destination<T>& to, int row, int col, const Pack<float, VECTOR<T>>& values,
                             const Pack<float, VECTOR<T>>& bias) {
  constexpr int V = VECTOR<T>;
  if (row >= to.rows || col >= to.cols) return;
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    float value = col + i < to.cols ? values.v[i] + bias.v[i] : 0.0f;
    if (to.relu && value <= 0.0f) value = 0.0f;
    out.v[i] = from_float<T>(value);
  }
  T* start = to.data + int64_t{row} * to.row_stride;
  if (to.vectors) {
    device::store<T, V>(start + col, out);
  } else {
    int channel = col % to.channels;
    T* pixel = start + int64_t{col / to.channels} * to.pixel_stride;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (col + i >= to.cols) break;
      pixel[channel] = out.v[i];
      if (++channel < to.channels) continue;
#pragma unroll 1
      for (; channel < to.pixel_stride; ++channel) pixel[channel] = from_float<T>(0.0f);
      channel = 0;
      pixel += to.pixel_stride;
    }
  }
}

/// A block's shared memory: the ring, and in its place at last the partial sums; then the resident operand.
template <typename T, typename TILE, typename FORM, Resident RESIDENT>
struct SharedLayout {
  using PieceA = Piece<T, FORM::A_BY_M ? TILE::M : TILE::K, FORM::A_BY_M ? TILE::K : TILE::M>;
  using PieceB = Piece<T, FORM::B_BY_N ? TILE::N : TILE::K, FORM::B_BY_N ? TILE::K : TILE::N>;
  /// Where a stage has the gate of A, and B; A is its start.
  static constexpr int GATE = RESIDENT == Resident::A ? 0 : PieceA::SIZE;
  static constexpr int B = FORM::GATED ? 2 * GATE : GATE;
  static constexpr int STAGE = RESIDENT == Resident::B ? B : B + PieceB::SIZE;
  static constexpr int RING_LIMIT = 144 * 1024, MOST_STAGES = 6;
  static constexpr int STAGES = std::min(MOST_STAGES, RING_LIMIT / (STAGE * static_cast<int>(sizeof(T))));
  static_assert(STAGES >= 3);
  static constexpr int RESIDENT_START =
      std::max(STAGES * STAGE * static_cast<int>(sizeof(T)), TILE::SUMS* static_cast<int>(sizeof(float)));

  // A resident A is by rows of m, a resident B by rows of k.
  static_assert(RESIDENT != Resident::A || FORM::A_BY_M);
  static_assert(RESIDENT != Resident::B || !FORM::B_BY_N);
  static __host__ __device__ int resident_rows(int depth) {
    return RESIDENT == Resident::A ? TILE::M : tiles(depth, TILE::K) * TILE::K;
  }
  static __host__ __device__ int resident_cols(int depth) {
    return RESIDENT == Resident::A ? tiles(depth, TILE::K) * TILE::K : TILE::N;
  }
  static __host__ __device__ int resident_pitch(int depth) { return resident_cols(depth) + VECTOR<T>; }
  static int64_t resident_bytes(int depth) {
    if (RESIDENT == Resident::NONE) return 0;
    return int64_t{resident_rows(depth)} * resident_pitch(depth) * static_cast<int64_t>(sizeof(T));
  }
};

/// Adds up the partial sums of PARTS in order and writes the tile.
template <typename TILE, typename T>
__device__ void write_tile(const float* partial, const Destination<T>& to, int m0, int n0,
                           const Pack<float, VECTOR<T>>& bias) {
  constexpr int V = VECTOR<T>, PER_ROW = TILE::N / V;
  const int col = static_cast<int>(threadIdx.x) % PER_ROW * V;
  for (int row = static_cast<int>(threadIdx.x) / PER_ROW; row < TILE::M; row += THREADS / PER_ROW) {
    const float* from = partial + row * TILE::SUMS_PITCH + col;
    auto total = device::load<float, V>(from);
#pragma unroll
    for (int part = 1; part < TILE::PARTS; ++part) {
      const auto more = device::load<float, V>(from + part * TILE::M * TILE::SUMS_PITCH);
#pragma unroll
      for (int i = 0; i < V; ++i) total.v[i] += more.v[i];
    }
    write_vector(to, m0 + row, n0 + col, total, bias);
  }
}

/// The tile of A B at (m0, n0), the sum over k being `depth` long; where `row_sums` is not null, the sums of
/// A's rows go there. A resident operand is gathered by the CLUSTER blocks together, which is why blocks
/// outside the result must call this too.
template <typename FORM, typename TILE, Access ACCESS, Resident RESIDENT, int CLUSTER, typename T>
__device__ void make_tile(const Source<T>& a, const Source<T>& b, int depth, const Destination<T>& to, int m0,
                          int n0, float* row_sums, unsigned char* shared_bytes) {
  using Place = SharedLayout<T, TILE, FORM, RESIDENT>;
  constexpr int STAGES = Place::STAGES, PER_ROW = TILE::N / VECTOR<T>;
  static_assert(THREADS % PER_ROW == 0);
  T* ring = reinterpret_cast<T*>(shared_bytes);
  T* resident = reinterpret_cast<T*>(shared_bytes + Place::RESIDENT_START);
  const int steps = tiles(depth, TILE::K), resident_pitch = Place::resident_pitch(depth);
  const auto fetch = [&](int step) {
    if (step < steps) {
      T* stage = ring + step % STAGES * Place::STAGE;
      const int k = step * TILE::K;
      if constexpr (RESIDENT != Resident::A) {
        const int row = FORM::A_BY_M ? m0 : k, col = FORM::A_BY_M ? k : m0;
        Place::PieceA::template fetch<ACCESS>(stage, a, a.data, row, col);
        if constexpr (FORM::GATED)
          if (a.gate != nullptr)
            Place::PieceA::template fetch<ACCESS>(stage + Place::GATE, a, a.gate, row, col);
      }
      if constexpr (RESIDENT != Resident::B)
        Place::PieceB::template fetch<ACCESS>(stage + Place::B, b, b.data, FORM::B_BY_N ? n0 : k,
                                              FORM::B_BY_N ? k : n0);
    }
    commit_copies();  // a group for each step, be it empty: so a step's copies are known by their number
  };
  if constexpr (RESIDENT != Resident::NONE) cluster_arrive();
#pragma unroll 1
  for (int step = 0; step < STAGES - 1; ++step) fetch(step);
  const auto bias = load_bias(to, n0 + static_cast<int>(threadIdx.x) % PER_ROW * VECTOR<T>);
  if constexpr (RESIDENT == Resident::A)
    gather<CLUSTER>(resident, resident_pitch, a, m0, 0, Place::resident_rows(depth),
                    Place::resident_cols(depth));
  if constexpr (RESIDENT == Resident::B)
    gather<CLUSTER>(resident, resident_pitch, b, 0, n0, Place::resident_rows(depth),
                    Place::resident_cols(depth));

  Sums<T, TILE, FORM> sums;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<STAGES - 2>();
    __syncthreads();  // the step's copies are there, and nobody reads the stage that is filled next
    fetch(step + STAGES - 1);
    const T* stage = ring + step % STAGES * Place::STAGE;
    const int k = step * TILE::K;
    sums.add({RESIDENT == Resident::A ? resident + k : stage,
              FORM::GATED && a.gate != nullptr ? stage + Place::GATE : nullptr,
              RESIDENT == Resident::A ? resident_pitch : Place::PieceA::PITCH,
              RESIDENT == Resident::B ? resident + k * resident_pitch : stage + Place::B,
              RESIDENT == Resident::B ? resident_pitch : Place::PieceB::PITCH},
             row_sums != nullptr);
  }
  wait_for_copies<0>();
  __syncthreads();
  auto* partial = reinterpret_cast<float*>(shared_bytes);
  sums.deposit(partial, row_sums != nullptr);
  __syncthreads();
  write_tile<TILE>(partial, to, m0, n0, bias);
  if constexpr (FORM::SUM_ROWS) {
    const int row = static_cast<int>(threadIdx.x);
    if (row_sums == nullptr || row >= TILE::M || m0 + row >= to.rows) return;
    const float* from = partial + row * TILE::SUMS_PITCH + TILE::N;
    float total = 0.0f;
#pragma unroll
    for (int part = 0; part < TILE::PARTS; ++part) total += from[part * TILE::M * TILE::SUMS_PITCH];
    row_sums[m0 + row] = total;
  }
}

}  // namespace tr::fully_connected
