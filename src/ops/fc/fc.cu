// Fully connected layers without a library: one launch per pass, a tile of the result for each block.
#include <algorithm>

#include "ops/fc/fc_cuda.h"
#include "ops/fc/fc_tile.cuh"
#include "ops/support/cuda.h"

namespace tr {
namespace {

using device::from_float;
using device::Pack;
using device::to_float;
using device::VECTOR;
using fully_connected::Access;
using fully_connected::Destination;
using fully_connected::Resident;
using fully_connected::SharedLayout;
using fully_connected::Source;
using fully_connected::THREADS;
using fully_connected::Tile;
using fully_connected::tiles;
using fully_connected::WARPS;

/// y[N, out] = x weight^T; dx[N, in] = dy weight; dweight[out, in] = dy^T x with dbias, the sums of dy^T's
/// rows.
using Forward = fully_connected::Form<true, true, false, false>;
using DataGradient = fully_connected::Form<true, false, true, false>;
using WeightGradient = fully_connected::Form<false, false, true, true>;

/// Blocks of one multiprocessor that registers must allow.
constexpr int RESIDENT_BLOCKS = 2;
/// Blocks that fill most of the card.
constexpr int ENOUGH_BLOCKS = 80;
/// Blocks that gather x together: the most that every card allows.
constexpr int CLUSTER_BLOCKS = 8;
/// Bytes of a block's shared memory for what it gathers.
constexpr int64_t RESIDENT_LIMIT = 68 * 1024;

/// Larger tiles read less, more of them are made at once. Steps of K are long where many warps share them.
template <typename T>
struct Tiles {
  static constexpr bool WIDE = sizeof(T) == 2;
  using Row = Tile<64, 128, WIDE ? 64 : 32>;
  using Column = Tile<128, 64, WIDE ? 64 : 32>;
  using Large = Tile<64, 64, WIDE ? 64 : 32>;
  using Medium = Tile<32, 64, WIDE ? 128 : 64>;
  using Small = Tile<32, 32, WIDE ? 128 : 64>;
};

/// Tiles of one product, those of a column one after another.
template <typename TILE>
__host__ __device__ int tiles_of(int rows, int cols) {
  return tiles(rows, TILE::M) * tiles(cols, TILE::N);
}

template <typename FORM, typename TILE, Access ACCESS, typename T>
__device__ void make_tile_of_ring(const Source<T>& a, const Source<T>& b, int depth, const Destination<T>& to,
                                  int block, float* row_sums, unsigned char* shared_bytes) {
  const int down = tiles(to.rows, TILE::M), n0 = block / down * TILE::N;
  fully_connected::make_tile<FORM, TILE, ACCESS, Resident::NONE, 1>(
      a, b, depth, to, block % down * TILE::M, n0, n0 == 0 ? row_sums : nullptr, shared_bytes);
}

template <Access ACCESS, typename TILE, typename T>
__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    forward_kernel(Source<T> x, Source<T> weight, Destination<T> y) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  make_tile_of_ring<Forward, TILE, ACCESS>(x, weight, x.cols, y, static_cast<int>(blockIdx.x), nullptr,
                                           shared_bytes);
}

/// The first `dx_blocks` blocks make dx, the others dweight; those of its first column make dbias too.
template <Access ACCESS, typename DX_TILE, typename DWEIGHT_TILE, typename T>
__global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    backward_kernel(Source<T> x, Source<T> weight, Source<T> dy, Destination<T> dx, Destination<T> dweight,
                    float* dbias, int dx_blocks) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < dx_blocks)
    make_tile_of_ring<DataGradient, DX_TILE, ACCESS>(dy, weight, dy.cols, dx, block, nullptr, shared_bytes);
  else
    make_tile_of_ring<WeightGradient, DWEIGHT_TILE, ACCESS>(dy, x, dy.rows, dweight, block - dx_blocks, dbias,
                                                            shared_bytes);
}

/// x is of single channels. A cluster has neighbouring tiles of the same rows of x, which it gathers whole.
template <typename TILE, int CLUSTER, typename T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    forward_cluster_kernel(Source<T> x, Source<T> weight, Destination<T> y) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int block = static_cast<int>(blockIdx.x), cluster = block / CLUSTER, down = tiles(y.rows, TILE::M);
  fully_connected::make_tile<Forward, TILE, Access::VECTORS, Resident::A, CLUSTER>(
      x, weight, x.cols, y, cluster % down * TILE::M, (cluster / down * CLUSTER + block % CLUSTER) * TILE::N,
      nullptr, shared_bytes);
}

/// Likewise, of the same columns of x. There is no dx.
template <typename TILE, int CLUSTER, typename T>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    backward_cluster_kernel(Source<T> x, Source<T> dy, Destination<T> dweight, float* dbias) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int block = static_cast<int>(blockIdx.x), cluster = block / CLUSTER;
  const int across = tiles(dweight.cols, TILE::N), n0 = cluster % across * TILE::N;
  fully_connected::make_tile<WeightGradient, TILE, Access::VECTORS, Resident::B, CLUSTER>(
      dy, x, dy.rows, dweight, (cluster / across * CLUSTER + block % CLUSTER) * TILE::M, n0,
      n0 == 0 ? dbias : nullptr, shared_bytes);
}

/// Whether rows are dense and start where 16 bytes can be moved at once.
template <typename T>
bool moves_vectors(const FcMatrix& matrix) {
  const bool dense = matrix.pixel_stride == matrix.channels || matrix.cols == matrix.channels;
  return dense && matrix.row_stride % VECTOR<T> == 0;
}

/// Of 16-bit elements in 8 bytes each, with rows of whole vectors.
bool is_single_channel(const FcMatrix& matrix) {
  return matrix.channels == 1 && matrix.pixel_stride == 4 && matrix.row_stride == 4 * matrix.cols &&
         matrix.cols % VECTOR<__half> == 0;
}

template <typename T>
Source<T> source(const FcMatrix& from, const void* gate = nullptr) {
  return {static_cast<const T*>(from.data),   static_cast<const T*>(gate), static_cast<int>(from.row_stride),
          static_cast<int>(from.rows),        static_cast<int>(from.cols), static_cast<int>(from.channels),
          static_cast<int>(from.pixel_stride)};
}

template <typename T>
Destination<T> destination(const FcMatrix& to, const float* bias = nullptr, bool relu = false) {
  return {static_cast<T*>(to.data),
          bias,
          static_cast<int>(to.row_stride),
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

/// Allows `kernel` that much dynamic shared memory: more than 48 KiB must be asked for.
template <typename Kernel>
void allow_shared_bytes(Kernel kernel, int bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "fc");
}

template <Access ACCESS, typename TILE, typename T>
void forward(const Source<T>& x, const Source<T>& weight, const Destination<T>& y, cudaStream_t stream) {
  constexpr int BYTES = SharedLayout<T, TILE, Forward, Resident::NONE>::RESIDENT_START;
  const auto blocks = static_cast<unsigned>(tiles_of<TILE>(y.rows, y.cols));
  const auto kernel = forward_kernel<ACCESS, TILE, T>;
  allow_shared_bytes(kernel, BYTES);
  kernel<<<blocks, THREADS, BYTES, stream>>>(x, weight, y);
}

template <typename T>
struct Backward {
  Source<T> x, weight, dy;
  Destination<T> dx, dweight;
  float* dbias;

  template <typename TILE>
  int dx_blocks() const {
    return dx.data == nullptr ? 0 : tiles_of<TILE>(dx.rows, dx.cols);
  }
  template <typename TILE>
  int dweight_blocks() const {
    return tiles_of<TILE>(dweight.rows, dweight.cols);
  }
};

template <Access ACCESS, typename DX_TILE, typename DWEIGHT_TILE, typename T>
void backward(const Backward<T>& pass, cudaStream_t stream) {
  constexpr int BYTES =
      std::max(SharedLayout<T, DX_TILE, DataGradient, Resident::NONE>::RESIDENT_START,
               SharedLayout<T, DWEIGHT_TILE, WeightGradient, Resident::NONE>::RESIDENT_START);
  const int dx_blocks = pass.template dx_blocks<DX_TILE>();
  const auto blocks = static_cast<unsigned>(dx_blocks + pass.template dweight_blocks<DWEIGHT_TILE>());
  const auto kernel = backward_kernel<ACCESS, DX_TILE, DWEIGHT_TILE, T>;
  allow_shared_bytes(kernel, BYTES);
  kernel<<<blocks, THREADS, BYTES, stream>>>(pass.x, pass.weight, pass.dy, pass.dx, pass.dweight, pass.dbias,
                                             dx_blocks);
}

/// False where the rows of x do not fit.
template <typename TILE, int CLUSTER, typename T>
bool forward_in_clusters(const Source<T>& x, const Source<T>& weight, const Destination<T>& y,
                         cudaStream_t stream) {
  using Place = SharedLayout<T, TILE, Forward, Resident::A>;
  const int64_t resident_bytes = Place::resident_bytes(x.cols);
  if (resident_bytes > RESIDENT_LIMIT) return false;
  const int bytes = Place::RESIDENT_START + static_cast<int>(resident_bytes);
  const int clusters = tiles(y.rows, TILE::M) * tiles(tiles(y.cols, TILE::N), CLUSTER);
  const auto cluster_kernel = forward_cluster_kernel<TILE, CLUSTER, T>;
  allow_shared_bytes(cluster_kernel, bytes);
  cluster_kernel<<<static_cast<unsigned>(clusters * CLUSTER), THREADS, bytes, stream>>>(x, weight, y);
  return true;
}

/// False where the columns of x do not fit.
template <typename TILE, int CLUSTER, typename T>
bool backward_in_clusters(const Backward<T>& pass, cudaStream_t stream) {
  using Place = SharedLayout<T, TILE, WeightGradient, Resident::B>;
  const int64_t resident_bytes = Place::resident_bytes(pass.dy.rows);
  if (resident_bytes > RESIDENT_LIMIT) return false;
  const int bytes = Place::RESIDENT_START + static_cast<int>(resident_bytes);
  const int clusters = tiles(pass.dweight.cols, TILE::N) * tiles(tiles(pass.dweight.rows, TILE::M), CLUSTER);
  const auto cluster_kernel = backward_cluster_kernel<TILE, CLUSTER, T>;
  allow_shared_bytes(cluster_kernel, bytes);
  cluster_kernel<<<static_cast<unsigned>(clusters * CLUSTER), THREADS, bytes, stream>>>(
      pass.x, pass.dy, pass.dweight, pass.dbias);
  return true;
}

/// Large tiles where they give enough blocks, else smaller ones.
template <typename T>
void forward_with_vectors(const Source<T>& x, const Source<T>& weight, const Destination<T>& y,
                          cudaStream_t stream) {
  using Choice = Tiles<T>;
  const auto enough = [&]<typename TILE>(TILE) { return tiles_of<TILE>(y.rows, y.cols) >= ENOUGH_BLOCKS; };
  if (enough(typename Choice::Large{}))
    forward<Access::VECTORS, typename Choice::Large>(x, weight, y, stream);
  else if (enough(typename Choice::Medium{}))
    forward<Access::VECTORS, typename Choice::Medium>(x, weight, y, stream);
  else
    forward<Access::VECTORS, typename Choice::Small>(x, weight, y, stream);
}

template <typename T>
void backward_with_vectors(const Backward<T>& pass, cudaStream_t stream) {
  using Choice = Tiles<T>;
  const auto enough = [&]<typename DX_TILE, typename DWEIGHT_TILE>(DX_TILE, DWEIGHT_TILE) {
    return pass.template dx_blocks<DX_TILE>() + pass.template dweight_blocks<DWEIGHT_TILE>() >= ENOUGH_BLOCKS;
  };
  if (enough(typename Choice::Large{}, typename Choice::Row{}))
    backward<Access::VECTORS, typename Choice::Large, typename Choice::Row>(pass, stream);
  else if (enough(typename Choice::Medium{}, typename Choice::Large{}))
    backward<Access::VECTORS, typename Choice::Medium, typename Choice::Large>(pass, stream);
  else
    backward<Access::VECTORS, typename Choice::Small, typename Choice::Small>(pass, stream);
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
    write_vector(y, row, col, values, fully_connected::load_bias(y, col));
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
      if (dy.gate != nullptr && to_float(dy.gate[at]) <= 0.0f) value = from_float<T>(0.0f);
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
    const Source<T> from = source<T>(x), weights = source<T>(w);
    const Destination<T> to = destination<T>(y, bias, relu);
    bool done = false;
    if constexpr (sizeof(T) == 2)
      if (is_single_channel(x))
        done = forward_in_clusters<typename Tiles<T>::Medium, CLUSTER_BLOCKS>(from, weights, to, stream);
    if (!done && moves_vectors<T>(x) && moves_vectors<T>(w))
      forward_with_vectors(from, weights, to, stream);
    else if (!done)
      forward<Access::PIXELS, typename Tiles<T>::Small>(from, weights, to, stream);
    check_cuda(cudaGetLastError(), "fc forward");
  });
}

void launch_fc_backward(DType dtype, const FcBackwardOperands& operands, cudaStream_t stream) {
  device::for_dtype(dtype, [&]<typename T>(T) {
    const FcMatrix &x = operands.x, &dy = operands.dy;
    const FcMatrix weight = dense(operands.weight, dy.cols, x.cols);
    const Backward<T> pass{source<T>(x),
                           source<T>(weight),
                           source<T>(dy, operands.y),
                           destination<T>(operands.dx),
                           destination<T>(dense(operands.dweight, dy.cols, x.cols)),
                           operands.dbias};
    const bool vectors = moves_vectors<T>(dy) && moves_vectors<T>(weight);
    bool done = false;
    if constexpr (sizeof(T) == 2)
      if (vectors && is_single_channel(x) && operands.dx.data == nullptr)
        done = backward_in_clusters<typename Tiles<T>::Column, CLUSTER_BLOCKS>(pass, stream);
    if (!done && vectors && moves_vectors<T>(x))
      backward_with_vectors(pass, stream);
    else if (!done)
      backward<Access::PIXELS, typename Tiles<T>::Small, typename Tiles<T>::Small>(pass, stream);
    check_cuda(cudaGetLastError(), "fc backward");
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
