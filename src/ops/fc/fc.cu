// Fully connected layers without a library: one launch per pass. A block of 8 warps makes one tile of the
// result. In 16 bits each warp makes 32x32 of it from a share of the depth, and the shares are added in
// order; so small layers, whose tiles are few, still keep many loads in flight.
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <type_traits>

#include "ops/fc/fc_cuda.h"
#include "ops/support/cuda.h"
#include "ops/support/device.cuh"

namespace tr {
namespace {

using device::from_float;
using device::Pack;
using device::to_float;
using device::VECTOR;

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
/// Blocks of one multiprocessor that registers and shared memory must allow.
constexpr int RESIDENT_BLOCKS = 2;

/// A tile of the result is M x N, made in steps of K.
template <int M_, int N_, int K_>
struct Tile {
  static constexpr int M = M_, N = N_, K = K_;
};

/// How a row is read.
enum class Access : uint8_t {
  VECTORS,         ///< 16 bytes at once
  SINGLE_CHANNEL,  ///< 16-bit pixels of one channel, stored in 8 bytes each: two at once
  PIXELS           ///< one element at a time, skipping channel padding
};

/// Whether rows are dense and start where 16 bytes can be moved at once.
template <typename T>
bool moves_vectors(const FcMatrix& matrix) {
  const bool dense = matrix.pixel_stride == matrix.channels || matrix.cols == matrix.channels;
  return dense && matrix.row_stride % VECTOR<T> == 0;
}

/// Of 16-bit elements, with rows of whole vectors.
bool is_single_channel(const FcMatrix& matrix) {
  return matrix.channels == 1 && matrix.pixel_stride == 4 && matrix.row_stride == 4 * matrix.cols &&
         matrix.cols % VECTOR<__half> == 0;
}

/// A matrix to read. Elements whose `gate`, of the same layout, is <= 0 count as 0.
template <typename T>
struct Source {
  const T* data;
  const T* gate;
  int64_t row_stride;
  int rows, cols;
  int channels, pixel_stride;
};

/// A matrix to write.
template <typename T>
struct Destination {
  T* data;
  const float* bias;
  int64_t row_stride;
  int rows, cols;
  int channels, pixel_stride;
  bool vectors, relu;
};

template <typename T>
__device__ T gated(T value, T gate) {
  return to_float(gate) <= 0.0f ? from_float<T>(0.0f) : value;
}

template <Access ACCESS, typename T>
__device__ Pack<T, VECTOR<T>> load_vector(const Source<T>& from, const T* data, int row, int col) {
  constexpr int V = VECTOR<T>;
  Pack<T, V> values;
#pragma unroll
  for (int i = 0; i < V; ++i) values.v[i] = from_float<T>(0.0f);
  if (row >= from.rows || col >= from.cols) return values;
  const T* start = data + row * from.row_stride;
  if constexpr (ACCESS == Access::VECTORS) {
    values = device::load<T, V>(start + col);
  } else if constexpr (ACCESS == Access::SINGLE_CHANNEL) {
    start += int64_t{4} * col;
#pragma unroll
    for (int i = 0; i < V / 2; ++i) {
      const Pack<T, V> two_pixels = device::load<T, V>(start + V * i);
      values.v[2 * i] = two_pixels.v[0];
      values.v[2 * i + 1] = two_pixels.v[V / 2];
    }
  } else {
    int channel = col % from.channels;
    int64_t offset = int64_t{col / from.channels} * from.pixel_stride;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (col + i < from.cols) values.v[i] = start[offset + channel];
      if (++channel == from.channels) {
        channel = 0;
        offset += from.pixel_stride;
      }
    }
  }
  return values;
}

/// One step's ROWS x COLS piece of an operand on its way from global to shared memory. There it is as it was,
/// or transposed; the rows of either are padded by 16 bytes against bank conflicts.
template <typename T, int ROWS, int COLS, bool TRANSPOSED>
class Piece {
 public:
  static constexpr int V = VECTOR<T>;
  static constexpr int PITCH = (TRANSPOSED ? ROWS : COLS) + V;
  static constexpr int SIZE = (TRANSPOSED ? COLS : ROWS) * PITCH;

  template <Access ACCESS>
  __device__ void fetch(const Source<T>& from, int row0, int col0) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      words_[i] = std::bit_cast<Words>(load_vector<ACCESS>(from, from.data, row0 + row(i), col0 + col(i)));
    if (from.gate == nullptr) return;
    Words gates[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      gates[i] = std::bit_cast<Words>(load_vector<ACCESS>(from, from.gate, row0 + row(i), col0 + col(i)));
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      auto vector = std::bit_cast<Pack<T, V>>(words_[i]);
      const auto gate = std::bit_cast<Pack<T, V>>(gates[i]);
#pragma unroll
      for (int j = 0; j < V; ++j) vector.v[j] = gated(vector.v[j], gate.v[j]);
      words_[i] = std::bit_cast<Words>(vector);
    }
  }

  __device__ void put(T* shared) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (TRANSPOSED) {
        const auto vector = std::bit_cast<Pack<T, V>>(words_[i]);
#pragma unroll
        for (int j = 0; j < V; ++j) shared[(col(i) + j) * PITCH + row(i)] = vector.v[j];
      } else {
        *reinterpret_cast<Words*>(shared + row(i) * PITCH + col(i)) = words_[i];
      }
    }
  }

 private:
  // Words, since two 16-bit elements would otherwise be kept in two registers.
  using Words = Pack<uint32_t, 4>;
  static constexpr int COUNT = ROWS * COLS / (V * THREADS);
  static_assert(ROWS * COLS % (V * THREADS) == 0);

  // Transposed, a warp takes two vectors of each of 16 rows: its stores then go to 32 banks.
  static __device__ int row(int i) {
    const int index = static_cast<int>(threadIdx.x) + i * THREADS;
    return TRANSPOSED ? index / 2 % ROWS : index / (COLS / V);
  }
  static __device__ int col(int i) {
    const int index = static_cast<int>(threadIdx.x) + i * THREADS;
    return V * (TRANSPOSED ? index / 2 / ROWS * 2 + index % 2 : index % (COLS / V));
  }

  Words words_[COUNT];
};

/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
template <bool TRANSPOSE, typename T>
__device__ void load_matrices(uint32_t (&to)[4], const T* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (TRANSPOSE)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/// sum[16x8] += a[16x16] b[16x8]; lane l has rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next.
template <typename T>
__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Elements from one row of partial sums to the next.
template <typename TILE>
inline constexpr int SUMS_PITCH = TILE::N + 8;

/// A thread's part of the tile's sums in 16 bits: its lane's of the warp's 32x32. A is stored by rows of m
/// (A_BY_M) or of k, B by rows of n (B_BY_N) or of k.
template <typename T, typename TILE, bool A_BY_M, bool B_BY_N>
class Sums {
  static constexpr int WARPS_M = TILE::M / 32, WARPS_N = TILE::N / 32, WARPS_K = WARPS / (WARPS_M * WARPS_N);

 public:
  using PieceA = Piece<T, A_BY_M ? TILE::M : TILE::K, A_BY_M ? TILE::K : TILE::M, false>;
  using PieceB = Piece<T, B_BY_N ? TILE::N : TILE::K, B_BY_N ? TILE::K : TILE::N, false>;
  static constexpr int PARTS = WARPS_K;

  __device__ void add(const T* a, const T* b) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      const int k = (part() * STEPS + step) * 16;
      uint32_t left[2][4], right[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_a(left[i], a, m() + 16 * i, k);
        load_b(right[i], b, n() + 16 * i, k);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          multiply_add<T>(sums_[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
  }

  /// Writes the sums to `to`, [PARTS][M][N] with SUMS_PITCH.
  __device__ void deposit(float* to) const {
    constexpr int PITCH = SUMS_PITCH<TILE>;
    float* corner = to + (part() * TILE::M + m() + lane() / 4) * PITCH + n() + lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float* at = corner + 16 * i * PITCH + 8 * j;
        device::store<float, 2>(at, {sums_[i][j][0], sums_[i][j][1]});
        device::store<float, 2>(at + 8 * PITCH, {sums_[i][j][2], sums_[i][j][3]});
      }
  }

 private:
  static constexpr int STEPS = TILE::K / (16 * WARPS_K);
  static_assert(TILE::K % (16 * WARPS_K) == 0);

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int m() { return warp() % WARPS_M * 32; }
  static __device__ int n() { return warp() / WARPS_M % WARPS_N * 32; }
  static __device__ int part() { return warp() / (WARPS_M * WARPS_N); }

  /// Matrices of 8x8: (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
  static __device__ void load_a(uint32_t (&to)[4], const T* a, int m, int k) {
    const int row = lane() % 8, second = lane() / 8 % 2 * 8, third = lane() / 16 * 8;
    if constexpr (A_BY_M)
      load_matrices<false>(to, a + (m + second + row) * PieceA::PITCH + k + third);
    else
      load_matrices<true>(to, a + (k + third + row) * PieceA::PITCH + m + second);
  }
  /// Matrices of 8x8: (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8).
  static __device__ void load_b(uint32_t (&to)[4], const T* b, int n, int k) {
    const int row = lane() % 8, second = lane() / 8 % 2 * 8, third = lane() / 16 * 8;
    if constexpr (B_BY_N)
      load_matrices<false>(to, b + (n + third + row) * PieceB::PITCH + k + second);
    else
      load_matrices<true>(to, b + (k + second + row) * PieceB::PITCH + n + third);
  }

  float sums_[2][4][4] = {};
};

/// The same in FP32: a thread's M / 16 x N / 16 of the tile, both operands by rows of k in shared memory.
template <typename TILE, bool A_BY_M, bool B_BY_N>
class Sums<float, TILE, A_BY_M, B_BY_N> {
 public:
  using PieceA = Piece<float, A_BY_M ? TILE::M : TILE::K, A_BY_M ? TILE::K : TILE::M, A_BY_M>;
  using PieceB = Piece<float, B_BY_N ? TILE::N : TILE::K, B_BY_N ? TILE::K : TILE::N, B_BY_N>;
  static constexpr int PARTS = 1;

  __device__ void add(const float* a, const float* b) {
#pragma unroll 8
    for (int k = 0; k < TILE::K; ++k) {
      const auto left = device::load<float, MS>(a + k * PieceA::PITCH + m());
      const auto right = device::load<float, NS>(b + k * PieceB::PITCH + n());
#pragma unroll
      for (int i = 0; i < MS; ++i)
#pragma unroll
        for (int j = 0; j < NS; ++j) sums_[i][j] = fmaf(left.v[i], right.v[j], sums_[i][j]);
    }
  }

  __device__ void deposit(float* to) const {
#pragma unroll
    for (int i = 0; i < MS; ++i)
#pragma unroll
      for (int j = 0; j < NS; ++j) to[(m() + i) * SUMS_PITCH<TILE> + n() + j] = sums_[i][j];
  }

 private:
  static constexpr int MS = TILE::M / 16, NS = TILE::N / 16;
  static __device__ int m() { return static_cast<int>(threadIdx.x) / 16 * MS; }
  static __device__ int n() { return static_cast<int>(threadIdx.x) % 16 * NS; }

  float sums_[MS][NS] = {};
};

/// Sums over k of a tile's A, stored by rows of k: groups of threads take some rows of each step, and the
/// groups are added in order.
template <typename T, typename TILE>
class ColumnSums {
 public:
  static constexpr int GROUPS = THREADS / TILE::M;

  __device__ void add(const T* a, int pitch) {
    constexpr int ROWS = TILE::K / GROUPS;
    const T* from = a + group() * ROWS * pitch + column();
#pragma unroll
    for (int i = 0; i < ROWS; ++i) sum_ += to_float(from[i * pitch]);
  }
  /// `shared` has THREADS elements that nobody else uses. All threads call it.
  __device__ void finish(float* shared, float* to, int columns) const {
    shared[threadIdx.x] = sum_;
    __syncthreads();
    if (group() != 0 || column() >= columns) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) sum += shared[i * TILE::M + column()];
    to[column()] = sum;
  }

 private:
  static __device__ int column() { return static_cast<int>(threadIdx.x) % TILE::M; }
  static __device__ int group() { return static_cast<int>(threadIdx.x) / TILE::M; }
  float sum_ = 0.0f;
};

/// Writes what `values` becomes with bias and activation to columns `col`… of `row`, and the channel padding
/// that belongs to them.
template <typename T>
__device__ void write_vector(const Destination<T>& to, int row, int col,
                             const Pack<float, VECTOR<T>>& values) {
  constexpr int V = VECTOR<T>;
  if (row >= to.rows || col >= to.cols) return;
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const bool inside = col + i < to.cols;
    float value = inside ? values.v[i] : 0.0f;
    if (to.bias != nullptr && inside) value += to.bias[col + i];
    if (to.relu && value <= 0.0f) value = 0.0f;
    out.v[i] = from_float<T>(value);
  }
  T* start = to.data + row * to.row_stride;
  if (to.vectors) {
    device::store<T, V>(start + col, out);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (col + i >= to.cols) break;
      const int channel = (col + i) % to.channels;
      T* pixel = start + int64_t{(col + i) / to.channels} * to.pixel_stride;
      pixel[channel] = out.v[i];
      if (channel + 1 < to.channels) continue;
      for (int padding = to.channels; padding < to.pixel_stride; ++padding)
        pixel[padding] = from_float<T>(0.0f);
    }
  }
}

template <typename T, typename TILE, bool A_BY_M, bool B_BY_N>
struct SharedLayout {
  using SumsOf = Sums<T, TILE, A_BY_M, B_BY_N>;
  static constexpr int STAGE = SumsOf::PieceA::SIZE + SumsOf::PieceB::SIZE;
  /// Two stages; after them, in the same place, the parts of the tile's sums and those of the bias gradient.
  static constexpr int PARTIAL_SUMS = SumsOf::PARTS * TILE::M * SUMS_PITCH<TILE>;
  static constexpr int BYTES = std::max(2 * STAGE * static_cast<int>(sizeof(T)),
                                        (PARTIAL_SUMS + THREADS) * static_cast<int>(sizeof(float)));
};

/// The tile of A B at (m0, n0); where `column_sums` is not null, the sums of A over k go there.
template <Access ACCESS_A, Access ACCESS_B, bool SUM_COLUMNS, typename TILE, bool A_BY_M, bool B_BY_N,
          typename T>
__device__ void make_tile(const Source<T>& a, const Source<T>& b, int depth, const Destination<T>& to, int m0,
                          int n0, float* column_sums, unsigned char* shared_bytes) {
  using Place = SharedLayout<T, TILE, A_BY_M, B_BY_N>;
  using SumsOf = typename Place::SumsOf;
  using PieceA = typename SumsOf::PieceA;
  T* shared = reinterpret_cast<T*>(shared_bytes);
  typename SumsOf::PieceA piece_a;
  typename SumsOf::PieceB piece_b;
  SumsOf sums;
  ColumnSums<T, TILE> columns;
  const auto fetch = [&](int k) {
    piece_a.template fetch<ACCESS_A>(a, A_BY_M ? m0 : k, A_BY_M ? k : m0);
    piece_b.template fetch<ACCESS_B>(b, B_BY_N ? n0 : k, B_BY_N ? k : n0);
  };
  const auto put = [&](T* stage) {
    piece_a.put(stage);
    piece_b.put(stage + PieceA::SIZE);
  };
  fetch(0);
  put(shared);
  __syncthreads();
  int current = 0;
  for (int k = 0; k < depth; k += TILE::K) {
    const bool more = k + TILE::K < depth;
    if (more) fetch(k + TILE::K);
    const T* stage = shared + current * Place::STAGE;
    sums.add(stage, stage + PieceA::SIZE);
    if constexpr (SUM_COLUMNS)
      if (column_sums != nullptr) columns.add(stage, PieceA::PITCH);
    current ^= 1;
    if (more) put(shared + current * Place::STAGE);
    __syncthreads();
  }
  auto* partial = reinterpret_cast<float*>(shared_bytes);
  sums.deposit(partial);
  if constexpr (SUM_COLUMNS)
    if (column_sums != nullptr) columns.finish(partial + Place::PARTIAL_SUMS, column_sums + m0, to.rows - m0);
  __syncthreads();
  constexpr int V = VECTOR<T>, PER_ROW = TILE::N / V;
  for (int i = static_cast<int>(threadIdx.x); i < TILE::M * PER_ROW; i += THREADS) {
    const int row = i / PER_ROW, col = i % PER_ROW * V;
    const float* from = partial + row * SUMS_PITCH<TILE> + col;
    auto total = device::load<float, V>(from);
#pragma unroll
    for (int part = 1; part < SumsOf::PARTS; ++part) {
      const auto more = device::load<float, V>(from + part * TILE::M * SUMS_PITCH<TILE>);
#pragma unroll
      for (int j = 0; j < V; ++j) total.v[j] += more.v[j];
    }
    write_vector(to, m0 + row, n0 + col, total);
  }
}

__host__ __device__ constexpr int tiles(int items, int size) { return (items + size - 1) / size; }

/// Tiles of one product, those of a column one after another: they share the larger operand, the weights.
template <typename TILE>
__host__ __device__ int tiles_of(int rows, int cols) {
  return tiles(rows, TILE::M) * tiles(cols, TILE::N);
}

/// How weights, dy and y are read beside an x that is read in the way X.
template <Access X>
inline constexpr Access BESIDE = X == Access::PIXELS ? Access::PIXELS : Access::VECTORS;

template <Access X, typename T, typename TILE>
__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    forward_kernel(Source<T> x, Source<T> weight, Destination<T> y) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int block = static_cast<int>(blockIdx.x), down = tiles(y.rows, TILE::M);
  make_tile<X, BESIDE<X>, false, TILE, true, true>(x, weight, x.cols, y, block % down * TILE::M,
                                                   block / down * TILE::N, nullptr, shared_bytes);
}

/// The first `dx_blocks` blocks make dx, the others dweight; those of its first column make dbias too.
template <Access X, typename T, typename TILE>
__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    backward_kernel(Source<T> x, Source<T> weight, Source<T> dy, Destination<T> dx, Destination<T> dweight,
                    float* dbias, int dx_blocks) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  int block = static_cast<int>(blockIdx.x);
  if (block < dx_blocks) {
    const int down = tiles(dx.rows, TILE::M);
    make_tile<BESIDE<X>, BESIDE<X>, false, TILE, true, false>(dy, weight, dy.cols, dx, block % down * TILE::M,
                                                              block / down * TILE::N, nullptr, shared_bytes);
    return;
  }
  block -= dx_blocks;
  const int down = tiles(dweight.rows, TILE::M);
  make_tile<BESIDE<X>, X, true, TILE, false, false>(dy, x, dy.rows, dweight, block % down * TILE::M,
                                                    block / down * TILE::N, block < down ? dbias : nullptr,
                                                    shared_bytes);
}

template <typename T>
Source<T> source(const FcMatrix& from, const void* gate = nullptr) {
  return {static_cast<const T*>(from.data),   static_cast<const T*>(gate), from.row_stride,
          static_cast<int>(from.rows),        static_cast<int>(from.cols), static_cast<int>(from.channels),
          static_cast<int>(from.pixel_stride)};
}

template <typename T>
Destination<T> destination(const FcMatrix& to, const float* bias = nullptr, bool relu = false) {
  return {static_cast<T*>(to.data),
          bias,
          to.row_stride,
          static_cast<int>(to.rows),
          static_cast<int>(to.cols),
          static_cast<int>(to.channels),
          static_cast<int>(to.pixel_stride),
          moves_vectors<T>(to),
          relu};
}

/// [rows, cols] without padding.
FcMatrix dense(const void* data, int64_t rows, int64_t cols) {
  return {const_cast<void*>(data), rows, cols, cols, cols, cols};
}

template <Access X>
using Way = std::integral_constant<Access, X>;

/// body(Way, Tile) with the fastest way to read `x` and what is `beside` it, and the largest tile that gives
/// enough blocks to fill the card, else the smallest. `count`(Tile) is the number of blocks.
template <typename T, typename Count, typename Body>
void with_variant(const FcMatrix& x, std::initializer_list<FcMatrix> beside, Count count, Body body) {
  constexpr int ENOUGH = 96;
  constexpr bool WIDE = sizeof(T) == 2;
  using Large = Tile<64, 64, WIDE ? 64 : 32>;
  using Medium = Tile<32, 64, WIDE ? 128 : 32>;
  using Small = Tile<32, 32, WIDE ? 128 : 32>;
  const auto with_tile = [&](auto way) {
    if (count(Large{}) >= ENOUGH) return body(way, Large{});
    if (count(Medium{}) >= ENOUGH) return body(way, Medium{});
    return body(way, Small{});
  };
  const bool vectors = std::all_of(beside.begin(), beside.end(), moves_vectors<T>);
  if (vectors && moves_vectors<T>(x)) return with_tile(Way<Access::VECTORS>{});
  if constexpr (WIDE)
    if (vectors && is_single_channel(x)) return with_tile(Way<Access::SINGLE_CHANNEL>{});
  body(Way<Access::PIXELS>{}, Small{});
}

/// Allows `kernel` that much dynamic shared memory: more than 48 KiB must be asked for.
template <typename Kernel>
void allow_shared_bytes(Kernel kernel, int bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "fc");
}

/// One thread per vector of y's physical rows.
template <typename T>
__global__ void epilogue_kernel(const float* product, Destination<T> y) {
  constexpr int V = VECTOR<T>;
  const int per_row = tiles(y.cols, V);
  const int64_t items = int64_t{y.rows} * per_row;
  for (int64_t i = blockIdx.x * int64_t{THREADS} + threadIdx.x; i < items;
       i += int64_t{gridDim.x} * THREADS) {
    const int row = static_cast<int>(i / per_row), col = static_cast<int>(i % per_row) * V;
    const float* from = product + int64_t{row} * y.cols + col;
    Pack<float, V> values;
#pragma unroll
    for (int j = 0; j < V; ++j) values.v[j] = col + j < y.cols ? from[j] : 0.0f;
    write_vector(y, row, col, values);
  }
}

/// A block has 32 columns; each of its warps takes every eighth row of them, and the warps are added in
/// order.
template <typename T>
__global__ void mask_and_sum_kernel(Source<T> dy, T* masked, float* dbias) {
  __shared__ float sums[WARPS][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int col = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (col < dy.cols) {
#pragma unroll 4
    for (int row = warp; row < dy.rows; row += WARPS) {
      const int64_t at = row * dy.row_stride + col;
      T value = dy.data[at];
      if (dy.gate != nullptr) value = gated(value, dy.gate[at]);
      if (masked != nullptr) masked[at] = value;
      sum += to_float(value);
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (dbias == nullptr || warp != 0 || col >= dy.cols) return;
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < WARPS; ++i) total += sums[i][lane];
  dbias[col] = total;
}

template <typename T>
__global__ void copy_channels_kernel(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                                     int64_t channels, int64_t items) {
  for (int64_t i = blockIdx.x * int64_t{THREADS} + threadIdx.x; i < items;
       i += int64_t{gridDim.x} * THREADS) {
    const int64_t pixel = i / to_stride, channel = i - pixel * to_stride;
    to[i] = channel < channels ? from[pixel * from_stride + channel] : from_float<T>(0.0f);
  }
}

constexpr int64_t MOST_BLOCKS = 1056;  // eight for each multiprocessor of an H200

}  // namespace

void launch_fc_forward(DType dtype, const FcMatrix& x, const void* weight, const float* bias, bool relu,
                       const FcMatrix& y, cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const FcMatrix w = dense(weight, y.cols, x.cols);
    const Destination<T> to = destination<T>(y, bias, relu);
    const auto count = [&]<typename TILE>(TILE) { return tiles_of<TILE>(to.rows, to.cols); };
    with_variant<T>(x, {w}, count, [&]<Access X, typename TILE>(Way<X>, TILE tile) {
      constexpr int BYTES = SharedLayout<T, TILE, true, true>::BYTES;
      const auto kernel = forward_kernel<X, T, TILE>;
      allow_shared_bytes(kernel, BYTES);
      kernel<<<static_cast<unsigned>(count(tile)), THREADS, BYTES, stream>>>(source<T>(x), source<T>(w), to);
      check_cuda(cudaGetLastError(), "fc forward");
    });
  });
}

void launch_fc_backward(DType dtype, const FcBackwardOperands& operands, cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const FcMatrix &x = operands.x, &dy = operands.dy;
    const FcMatrix weight = dense(operands.weight, dy.cols, x.cols);
    const Destination<T> dx = destination<T>(operands.dx);
    const Destination<T> dweight = destination<T>(dense(operands.dweight, dy.cols, x.cols));
    const auto dx_blocks = [&]<typename TILE>(TILE) {
      return dx.data == nullptr ? 0 : tiles_of<TILE>(dx.rows, dx.cols);
    };
    const auto count = [&]<typename TILE>(TILE tile) {
      return dx_blocks(tile) + tiles_of<TILE>(dweight.rows, dweight.cols);
    };
    with_variant<T>(x, {weight, dy}, count, [&]<Access X, typename TILE>(Way<X>, TILE tile) {
      constexpr int BYTES =
          std::max(SharedLayout<T, TILE, true, false>::BYTES, SharedLayout<T, TILE, false, false>::BYTES);
      const auto kernel = backward_kernel<X, T, TILE>;
      allow_shared_bytes(kernel, BYTES);
      kernel<<<static_cast<unsigned>(count(tile)), THREADS, BYTES, stream>>>(
          source<T>(x), source<T>(weight), source<T>(dy, operands.y), dx, dweight, operands.dbias,
          dx_blocks(tile));
      check_cuda(cudaGetLastError(), "fc backward");
    });
  });
}

void launch_fc_epilogue(DType dtype, const float* product, const float* bias, bool relu, const FcMatrix& y,
                        cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const unsigned blocks = device::blocks_for(y.rows * y.row_stride / VECTOR<T>, THREADS, MOST_BLOCKS);
    epilogue_kernel<T><<<blocks, THREADS, 0, stream>>>(product, destination<T>(y, bias, relu));
    check_cuda(cudaGetLastError(), "fc epilogue");
  });
}

void launch_fc_mask_and_sum(DType dtype, const FcMatrix& dy, const void* y, void* masked, float* dbias,
                            cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const auto blocks = static_cast<unsigned>((dy.cols + 31) / 32);
    mask_and_sum_kernel<T><<<blocks, THREADS, 0, stream>>>(source<T>(dy, y), static_cast<T*>(masked), dbias);
    check_cuda(cudaGetLastError(), "fc bias gradient");
  });
}

void launch_fc_copy_channels(DType dtype, const void* from, int64_t from_stride, void* to, int64_t to_stride,
                             int64_t channels, int64_t pixels, cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const int64_t items = pixels * to_stride;
    copy_channels_kernel<T><<<device::blocks_for(items, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
        static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride, channels, items);
    check_cuda(cudaGetLastError(), "fc copy");
  });
}

}  // namespace tr
