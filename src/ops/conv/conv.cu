#include "ops/conv/conv_cuda.h"
#include "ops/conv/conv_workspace.h"
#include "ops/support/device.cuh"

namespace tr {
namespace {

using device::for_dtype;
using device::from_float;
using device::load;
using device::Pack;
using device::store;
using device::to_float;
using device::VECTOR;

constexpr int THREADS = 256;
/// Blocks of memory-bound kernels: eight for each of 132 multiprocessors.
constexpr int64_t MOST_BLOCKS = 132 * 8;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Direct convolutions: matrix products of which one operand is gathered from a map. A block computes a TILE x
// TILE part of the result, a thread 4 x 4 elements, DEPTH products of the sum at a time in shared memory.

constexpr int TILE = 64;
constexpr int DEPTH = 16;
constexpr int PER_THREAD = 4;
constexpr int LOADS = TILE * DEPTH / THREADS;  ///< of a thread, for each operand
/// An origin from which no tap reaches the map.
constexpr int OUTSIDE = -(1 << 30);

struct alignas(16) Operand {
  float v[DEPTH][TILE + 4];
};
using Sums = float[PER_THREAD][PER_THREAD];

__device__ int first_row() { return static_cast<int>(threadIdx.x) / (TILE / PER_THREAD) * PER_THREAD; }
__device__ int first_column() { return static_cast<int>(threadIdx.x) % (TILE / PER_THREAD) * PER_THREAD; }

__device__ void multiply_add(const Operand& a, const Operand& b, Sums& sums) {
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    const auto rows = load<float, PER_THREAD>(&a.v[k][first_row()]);
    const auto columns = load<float, PER_THREAD>(&b.v[k][first_column()]);
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
#pragma unroll
      for (int j = 0; j < PER_THREAD; ++j) sums[i][j] = fmaf(rows.v[i], columns.v[j], sums[i][j]);
  }
}

/// Forward: `to` is y, `from` x. Backward data: `to` is dx, `from` dy. Rows of the product are pixels of
/// `to`, columns its channels; the sum runs over taps and, innermost, channels of `from`.
template <typename T, bool BACKWARD>
__global__ void __launch_bounds__(THREADS, 2)
    gather_kernel(ConvGeometry g, const T* __restrict__ from, const T* __restrict__ weight,
                  T* __restrict__ to) {
  __shared__ Operand a, b;
  const int to_height = BACKWARD ? g.height : g.out_height, to_width = BACKWARD ? g.width : g.out_width;
  const int from_height = BACKWARD ? g.out_height : g.height, from_width = BACKWARD ? g.out_width : g.width;
  const int to_channels = (BACKWARD ? g.channels : g.out_channels) / g.groups;
  const int from_channels = (BACKWARD ? g.out_channels : g.channels) / g.groups;
  const int64_t to_stride = BACKWARD ? g.x_stride : g.y_stride;
  const int64_t from_stride = BACKWARD ? g.y_stride : g.x_stride;
  const int window = g.kernel * g.kernel, depth = window * from_channels;
  const int rows = g.images * to_height * to_width;
  const int column_tiles = (to_channels + TILE - 1) / TILE;
  const int block = static_cast<int>(blockIdx.x);
  const int group = block % g.groups;
  const int column0 = block / g.groups % column_tiles * TILE, row0 = block / g.groups / column_tiles * TILE;

  // What this thread loads: one k of each step, and rows (columns) `lane`, lane + 16, ...
  const int k_lane = static_cast<int>(threadIdx.x) % DEPTH, lane = static_cast<int>(threadIdx.x) / DEPTH;
  constexpr int LANES = THREADS / DEPTH;
  int origin_line[LOADS], origin_h[LOADS], origin_w[LOADS];
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const int row = row0 + lane + LANES * i;
    const int w = row % to_width, line = row / to_width, h = line % to_height;
    origin_line[i] = line / to_height * from_height;
    origin_h[i] = row >= rows ? OUTSIDE : BACKWARD ? h + g.padding : h * g.stride - g.padding;
    origin_w[i] = BACKWARD ? w + g.padding : w * g.stride - g.padding;
  }

  float next_a[LOADS], next_b[LOADS];
  const auto fetch = [&](int k0) {
    const int k = k0 + k_lane;
    const bool inside = k < depth;
    const int tap = k / from_channels, channel = k - tap * from_channels;
    const int shift_h = tap / g.kernel * g.dilation, shift_w = tap % g.kernel * g.dilation;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      int h = BACKWARD ? origin_h[i] - shift_h : origin_h[i] + shift_h;
      int w = BACKWARD ? origin_w[i] - shift_w : origin_w[i] + shift_w;
      bool taken = inside && h >= 0 && w >= 0;
      if (BACKWARD && g.stride > 1) {
        taken = taken && h % g.stride == 0 && w % g.stride == 0;
        h /= g.stride;
        w /= g.stride;
      }
      taken = taken && h < from_height && w < from_width;
      next_a[i] = taken ? to_float(from[((origin_line[i] + h) * from_width + w) * from_stride +
                                        group * from_channels + channel])
                        : 0.0f;
      const int column = column0 + lane + LANES * i;
      const int64_t place =
          BACKWARD
              ? (static_cast<int64_t>(group * from_channels + channel) * window + tap) * to_channels + column
              : static_cast<int64_t>(group * to_channels + column) * depth + k;
      next_b[i] = inside && column < to_channels ? to_float(weight[place]) : 0.0f;
    }
  };

  Sums sums = {};
  fetch(0);
  for (int k0 = 0; k0 < depth; k0 += DEPTH) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      a.v[k_lane][lane + LANES * i] = next_a[i];
      b.v[k_lane][lane + LANES * i] = next_b[i];
    }
    __syncthreads();
    if (k0 + DEPTH < depth) fetch(k0 + DEPTH);
    multiply_add(a, b, sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const int row = row0 + first_row() + i;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
      const int column = column0 + first_column() + j;
      if (row < rows && column < to_channels)
        to[row * to_stride + group * to_channels + column] = from_float<T>(sums[i][j]);
    }
  }
}

template <bool BACKWARD>
void launch_gather(DType dtype, const ConvGeometry& g, const void* from, const void* weight, void* to,
                   cudaStream_t stream) {
  const int64_t rows =
      int64_t{g.images} * (BACKWARD ? g.height : g.out_height) * (BACKWARD ? g.width : g.out_width);
  const int64_t columns = (BACKWARD ? g.channels : g.out_channels) / g.groups;
  const int64_t blocks = divide_up(rows, TILE) * divide_up(columns, TILE) * g.groups;
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    gather_kernel<T, BACKWARD><<<static_cast<unsigned>(blocks), THREADS, 0, stream>>>(
        g, static_cast<const T*>(from), static_cast<const T*>(weight), static_cast<T*>(to));
  });
}

/// Rows of the product are output channels, columns the weights of one; the sum runs over the slice's pixels
/// of y. Writes dw, or where there are partials its slice of them: FP32 [slices, K, R, S, C/groups].
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    weight_gradient_kernel(ConvGeometry g, const T* __restrict__ x, const T* __restrict__ dy,
                           T* __restrict__ dw, float* __restrict__ partials, int slice_pixels) {
  /// So many products are summed before the sum joins the total: keeps rounding errors small.
  constexpr int RUN = 512;
  __shared__ Operand a, b;
  const int out_channels = g.out_channels / g.groups, channels = g.channels / g.groups;
  const int columns = g.kernel * g.kernel * channels;
  const int column_tiles = (columns + TILE - 1) / TILE;
  const int block = static_cast<int>(blockIdx.x);
  const int group = block % g.groups;
  const int column0 = block / g.groups % column_tiles * TILE, row0 = block / g.groups / column_tiles * TILE;
  const int pixels = g.images * g.out_height * g.out_width;
  const int first = static_cast<int>(blockIdx.y) * slice_pixels;
  const int last = min(pixels - first, slice_pixels) + first;

  // What this thread loads: one row and one column, pixels k_lane, k_lane + 4, ... of each step.
  const int lane = static_cast<int>(threadIdx.x) % TILE, k_lane = static_cast<int>(threadIdx.x) / TILE;
  constexpr int K_LANES = THREADS / TILE;
  const int row = row0 + lane, column = column0 + lane;
  const int tap = column / channels, channel = column - tap * channels;
  const int shift_h = tap / g.kernel * g.dilation - g.padding,
            shift_w = tap % g.kernel * g.dilation - g.padding;

  float next_a[LOADS], next_b[LOADS];
  const auto fetch = [&](int pixel0) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const int pixel = pixel0 + k_lane + K_LANES * i;
      const bool inside = pixel < last;
      next_a[i] = inside && row < out_channels
                      ? to_float(dy[static_cast<int64_t>(pixel) * g.y_stride + group * out_channels + row])
                      : 0.0f;
      const int line = pixel / g.out_width;
      const int h = line % g.out_height * g.stride + shift_h;
      const int w = (pixel - line * g.out_width) * g.stride + shift_w;
      const bool taken = inside && column < columns && h >= 0 && w >= 0 && h < g.height && w < g.width;
      const int64_t place = (line / g.out_height * g.height + h) * g.width + w;
      next_b[i] = taken ? to_float(x[place * g.x_stride + group * channels + channel]) : 0.0f;
    }
  };

  Sums total = {}, sums = {};
  const auto join = [&] {
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
#pragma unroll
      for (int j = 0; j < PER_THREAD; ++j) {
        total[i][j] += sums[i][j];
        sums[i][j] = 0.0f;
      }
  };
  fetch(first);
  for (int pixel0 = first; pixel0 < last; pixel0 += DEPTH) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      a.v[k_lane + K_LANES * i][lane] = next_a[i];
      b.v[k_lane + K_LANES * i][lane] = next_b[i];
    }
    __syncthreads();
    if (last - pixel0 > DEPTH) fetch(pixel0 + DEPTH);
    multiply_add(a, b, sums);
    if ((pixel0 - first) % RUN == RUN - DEPTH) join();
    __syncthreads();
  }
  join();
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const int out_row = row0 + first_row() + i;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
      const int out_column = column0 + first_column() + j;
      if (out_row >= out_channels || out_column >= columns) continue;
      const int64_t place = static_cast<int64_t>(group * out_channels + out_row) * columns + out_column;
      if (partials == nullptr)
        dw[place] = from_float<T>(total[i][j]);
      else
        partials[static_cast<int64_t>(blockIdx.y) * g.out_channels * columns + place] = total[i][j];
    }
  }
}

/// dw[i] = the sum over the slices, in their order.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    finish_weight_gradient_kernel(const float* __restrict__ partials, int slices, int64_t items,
                                  T* __restrict__ dw) {
  const int64_t step = int64_t{gridDim.x} * THREADS;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < items; i += step) {
    double sum = 0.0;
#pragma unroll 4
    for (int slice = 0; slice < slices; ++slice) sum += static_cast<double>(partials[slice * items + i]);
    dw[i] = from_float<T>(static_cast<float>(sum));
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    copy_matrix_kernel(const T* __restrict__ from, int64_t from_rows, int64_t from_columns,
                       T* __restrict__ to, int64_t to_rows, int64_t to_columns) {
  const int64_t step = int64_t{gridDim.x} * THREADS, items = to_rows * to_columns;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < items; i += step) {
    const int64_t row = i / to_columns, column = i - row * to_columns;
    const bool given = row < from_rows && column < from_columns;
    to[i] = given ? from[row * from_columns + column] : from_float<T>(0.0f);
  }
}

// Kernels over maps. V channels at a time.

template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    bias_relu_kernel(T* __restrict__ y, FeatureMap map, const float* __restrict__ bias, bool relu) {
  // A number of threads that is a multiple of a pixel's vectors: each thread stays at its channels.
  const int64_t vectors = map.stride / V, step = int64_t{gridDim.x} * THREADS / vectors * vectors;
  const int64_t first = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (first >= step) return;
  const int64_t channel = first % vectors * V;
  float offset[V];
#pragma unroll
  for (int v = 0; v < V; ++v)
    offset[v] = bias != nullptr && channel + v < map.channels ? bias[channel + v] : 0.0f;
  for (int64_t i = first; i < map.pixels * vectors; i += step) {
    Pack<T, V> pack = load<T, V>(y + i * V);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float value = to_float(pack.v[v]) + offset[v];
      const bool zero = channel + v >= map.channels || (relu && value <= 0.0f);
      pack.v[v] = from_float<T>(zero ? 0.0f : value);
    }
    store<T, V>(y + i * V, pack);
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) zero_padding_kernel(T* __restrict__ y, FeatureMap map) {
  const int64_t step = int64_t{gridDim.x} * THREADS;
  for (int64_t p = int64_t{blockIdx.x} * THREADS + threadIdx.x; p < map.pixels; p += step)
    for (int64_t c = map.channels; c < map.stride; ++c) y[p * map.stride + c] = from_float<T>(0.0f);
}

template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    relu_mask_kernel(const T* __restrict__ y, T* __restrict__ dy, int64_t vectors) {
  const int64_t step = int64_t{gridDim.x} * THREADS;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < vectors; i += step) {
    const Pack<T, V> sign = load<T, V>(y + i * V);
    Pack<T, V> pack = load<T, V>(dy + i * V);
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (to_float(sign.v[v]) <= 0.0f) pack.v[v] = from_float<T>(0.0f);
    store<T, V>(dy + i * V, pack);
  }
}

/// Adds the threads that have the same column; those of the first row have the sums. All threads call it.
template <int V>
__device__ void add_rows(double (&sums)[V], double* shared, int columns) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) shared[v * THREADS + thread] = sums[v];
  for (int distance = THREADS / 2; distance >= columns; distance /= 2) {
    __syncthreads();
    if (thread < distance)
#pragma unroll
      for (int v = 0; v < V; ++v) shared[v * THREADS + thread] += shared[v * THREADS + thread + distance];
  }
#pragma unroll
  for (int v = 0; v < V; ++v) sums[v] = shared[v * THREADS + thread];
}

/// Partial sums of slice blockIdx.x over its pixels: FP64 [slices, 1 or 2, stride]. Runs of ROUNDS pixels are
/// summed in FP32, since converting each element to FP64 would take longer than loading it.
template <typename T, int V, bool SQUARES>
__global__ void __launch_bounds__(THREADS)
    channel_sums_kernel(const T* __restrict__ map, int64_t pixels, int stride, int columns,
                        int64_t slice_pixels, double* __restrict__ partials) {
  constexpr int ROUNDS = 8;
  constexpr int KINDS = SQUARES ? 2 : 1;
  __shared__ double shared[THREADS * V];
  const int column = static_cast<int>(threadIdx.x) % columns, row = static_cast<int>(threadIdx.x) / columns;
  const int rows = THREADS / columns;
  const int channel = (static_cast<int>(blockIdx.y) * columns + column) * V;
  const int64_t begin = blockIdx.x * slice_pixels, end = min(pixels, begin + slice_pixels);
  double sums[V] = {}, squares[V] = {};
  if (channel < stride)
    for (int64_t pixel0 = begin + row; pixel0 < end; pixel0 += ROUNDS * rows) {
      Pack<T, V> packs[ROUNDS];
#pragma unroll
      for (int round = 0; round < ROUNDS; ++round) {
        const int64_t pixel = pixel0 + round * rows;
        if (pixel < end) {
          packs[round] = load<T, V>(map + pixel * stride + channel);
        } else {
#pragma unroll
          for (int v = 0; v < V; ++v) packs[round].v[v] = from_float<T>(0.0f);
        }
      }
#pragma unroll
      for (int v = 0; v < V; ++v) {
        float sum = 0.0f, square = 0.0f;
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
          const float value = to_float(packs[round].v[v]);
          sum += value;
          square = fmaf(value, value, square);
        }
        sums[v] += static_cast<double>(sum);
        if (SQUARES) squares[v] += static_cast<double>(square);
      }
    }
  double* out = partials + int64_t{blockIdx.x} * KINDS * stride + channel;
  const bool writes = row == 0 && channel < stride;
  add_rows<V>(sums, shared, columns);
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (writes) out[v] = sums[v];
  if (!SQUARES) return;
  add_rows<V>(squares, shared, columns);
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (writes) out[stride + v] = squares[v];
}

constexpr int FINISH_COLUMNS = 32;
constexpr int FINISH_ROWS = 32;

/// The sums of 32 channels over the slices: thread row r takes slices r, r + 32, ...
template <bool SQUARES>
__global__ void __launch_bounds__(FINISH_COLUMNS* FINISH_ROWS)
    finish_sums_kernel(const double* __restrict__ partials, int slices, int channels, int stride,
                       float* __restrict__ sums, float* __restrict__ squares) {
  constexpr int KINDS = SQUARES ? 2 : 1;
  __shared__ double shared[FINISH_ROWS][FINISH_COLUMNS];
  const int column = static_cast<int>(threadIdx.x) % FINISH_COLUMNS,
            row = static_cast<int>(threadIdx.x) / FINISH_COLUMNS;
  const int channel = static_cast<int>(blockIdx.x) * FINISH_COLUMNS + column;
  for (int kind = 0; kind < KINDS; ++kind) {
    double sum = 0.0;
    if (channel < channels)
#pragma unroll 4
      for (int slice = row; slice < slices; slice += FINISH_ROWS)
        sum += partials[(int64_t{slice} * KINDS + kind) * stride + channel];
    shared[row][column] = sum;
    for (int distance = FINISH_ROWS / 2; distance > 0; distance /= 2) {
      __syncthreads();
      if (row < distance) shared[row][column] += shared[row + distance][column];
    }
    if (row == 0 && channel < channels)
      (kind == 0 ? sums : squares)[channel] = static_cast<float>(shared[0][column]);
    __syncthreads();
  }
}

template <bool SQUARES>
void channel_sums(DType dtype, const void* map, const FeatureMap& shape, double* partials, float* sums,
                  float* squares, cudaStream_t stream) {
  const ChannelSumGrid grid(shape.pixels, shape.stride, dtype_bytes(dtype));
  const dim3 blocks(static_cast<unsigned>(grid.slices), static_cast<unsigned>(grid.column_blocks));
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto kernel) {
      kernel<<<blocks, THREADS, 0, stream>>>(static_cast<const T*>(map), shape.pixels,
                                             static_cast<int>(shape.stride), static_cast<int>(grid.columns),
                                             grid.slice_pixels, partials);
    };
    if (grid.vector == 1)
      launch(channel_sums_kernel<T, 1, SQUARES>);
    else
      launch(channel_sums_kernel<T, VECTOR<T>, SQUARES>);
  });
  const auto finish_blocks = static_cast<unsigned>(divide_up(shape.channels, FINISH_COLUMNS));
  finish_sums_kernel<SQUARES><<<finish_blocks, FINISH_COLUMNS * FINISH_ROWS, 0, stream>>>(
      partials, static_cast<int>(grid.slices), static_cast<int>(shape.channels),
      static_cast<int>(shape.stride), sums, squares);
}

}  // namespace

void launch_direct_forward(DType dtype, const ConvGeometry& geometry, const void* x, const void* weight,
                           void* y, cudaStream_t stream) {
  launch_gather<false>(dtype, geometry, x, weight, y, stream);
}

void launch_direct_backward_data(DType dtype, const ConvGeometry& geometry, const void* dy,
                                 const void* weight, void* dx, cudaStream_t stream) {
  launch_gather<true>(dtype, geometry, dy, weight, dx, stream);
}

void launch_direct_backward_weight(DType dtype, const ConvGeometry& g, const void* x, const void* dy,
                                   void* dw, float* partials, int64_t partial_bytes, cudaStream_t stream) {
  constexpr int64_t LEAST_SLICE_PIXELS = 256;
  const int64_t columns = int64_t{g.kernel} * g.kernel * (g.channels / g.groups),
                items = g.out_channels * columns;
  const int64_t pixels = int64_t{g.images} * g.out_height * g.out_width;
  const int64_t tiles = divide_up(g.out_channels / g.groups, TILE) * divide_up(columns, TILE) * g.groups;
  const int64_t fitting = partial_bytes / (items * static_cast<int64_t>(sizeof(float)));
  const int64_t wanted = std::min({MOST_BLOCKS / tiles, divide_up(pixels, LEAST_SLICE_PIXELS), fitting});
  const int64_t slice_pixels = round_up(divide_up(pixels, std::max<int64_t>(wanted, 1)), DEPTH);
  const int64_t slices = divide_up(pixels, slice_pixels);
  float* rows = slices > 1 ? partials : nullptr;
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    weight_gradient_kernel<T>
        <<<dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(slices)), THREADS, 0, stream>>>(
            g, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dw), rows,
            static_cast<int>(slice_pixels));
    if (rows != nullptr)
      finish_weight_gradient_kernel<T>
          <<<device::blocks_for(items, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
              rows, static_cast<int>(slices), items, static_cast<T*>(dw));
  });
}

void launch_copy_matrix(DType dtype, const void* from, int64_t from_rows, int64_t from_columns, void* to,
                        int64_t to_rows, int64_t to_columns, cudaStream_t stream) {
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    copy_matrix_kernel<T>
        <<<device::blocks_for(to_rows * to_columns, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
            static_cast<const T*>(from), from_rows, from_columns, static_cast<T*>(to), to_rows, to_columns);
  });
}

void launch_bias_relu(DType dtype, void* y, const FeatureMap& map, const float* bias, bool relu,
                      cudaStream_t stream) {
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto kernel, int64_t vector) {
      const int64_t vectors = map.stride / vector;
      // Enough for one pixel: see the kernel's step.
      const int64_t most = std::max(MOST_BLOCKS, divide_up(vectors, THREADS));
      kernel<<<device::blocks_for(map.pixels * vectors, THREADS, most), THREADS, 0, stream>>>(
          static_cast<T*>(y), map, bias, relu);
    };
    if (map.stride % VECTOR<T> == 0)
      launch(bias_relu_kernel<T, VECTOR<T>>, VECTOR<T>);
    else
      launch(bias_relu_kernel<T, 1>, 1);
  });
}

void launch_zero_padding(DType dtype, void* y, const FeatureMap& map, cudaStream_t stream) {
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    zero_padding_kernel<T><<<device::blocks_for(map.pixels, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
        static_cast<T*>(y), map);
  });
}

void launch_relu_mask(DType dtype, const void* y, void* dy, int64_t elements, cudaStream_t stream) {
  for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto kernel, int64_t vectors) {
      kernel<<<device::blocks_for(vectors, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
          static_cast<const T*>(y), static_cast<T*>(dy), vectors);
    };
    if (elements % VECTOR<T> == 0)
      launch(relu_mask_kernel<T, VECTOR<T>>, elements / VECTOR<T>);
    else
      launch(relu_mask_kernel<T, 1>, elements);
  });
}

void launch_channel_sums(DType dtype, const void* map, const FeatureMap& shape, double* partials, float* sums,
                         float* squares, cudaStream_t stream) {
  if (squares == nullptr)
    channel_sums<false>(dtype, map, shape, partials, sums, squares, stream);
  else
    channel_sums<true>(dtype, map, shape, partials, sums, squares, stream);
}

}  // namespace tr
