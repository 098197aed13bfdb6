/// Kernels over rows of channels: a group of `blockDim.x` threads (a power of two, at most a warp) has a row,
/// in packs of V elements.
#pragma once

#include <initializer_list>

#include "ops/support/channel_slices.h"
#include "ops/support/device.cuh"
#include "ops/support/row_kernels.h"

namespace tr::device {

inline constexpr int ROW_THREADS = 256;
inline constexpr int64_t ROW_BLOCKS = 132 * 8;  ///< enough to fill a device, each loops over the rest

/// The width of a row's packs: VECTOR<T> where each map's rows begin at a multiple of it, else 1.
template <typename T>
int pack_width(std::initializer_list<RowMap> maps) {
  for (const RowMap& map : maps)
    if (map.stride % VECTOR<T> != 0) return 1;
  return VECTOR<T>;
}

/// Threads of a group, for rows of `packs`.
inline unsigned row_lanes(int64_t packs) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes < packs) lanes *= 2;
  return lanes;
}
inline dim3 row_block(int64_t packs) {
  const unsigned lanes = row_lanes(packs);
  return dim3(lanes, ROW_THREADS / lanes);
}
inline unsigned row_grid(int64_t rows, const dim3& block) {
  return blocks_for(rows, static_cast<int>(block.y), ROW_BLOCKS);
}

/// Sum over the group, in a fixed order; every thread has it. The whole warp must come.
__device__ inline float group_sum(float value) {
  for (unsigned distance = blockDim.x / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, static_cast<int>(distance));
  return value;
}

template <typename T, int V>
__device__ void load_pack(const T* from, float (&values)[V]) {
  const Pack<T, V> pack = load<T, V>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) values[i] = to_float(pack.v[i]);
}
/// Zeros for channels past the last, which are padding.
template <typename T, int V>
__device__ void store_pack(T* to, const float (&values)[V], int channel, int channels) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) pack.v[i] = from_float<T>(channel + i < channels ? values[i] : 0.0f);
  store(to, pack);
}
/// One FP32 value for each channel; zeros past the last.
template <int V>
__device__ void load_channels(const float* from, int channel, int channels, float (&values)[V]) {
  constexpr int TOGETHER = V < 4 ? V : 4;
  if (channel + V <= channels) {
#pragma unroll
    for (int first = 0; first < V; first += TOGETHER) {
      const Pack<float, TOGETHER> pack = load<float, TOGETHER>(from + channel + first);
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) values[first + i] = pack.v[i];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i) values[i] = channel + i < channels ? from[channel + i] : 0.0f;
}

/// out = in times its factor: factors.of_row(row) once for each row, of which load<V>(channel, channels,
/// values) gives the factors of V channels.
template <typename T, int V, typename Factors>
__global__ void __launch_bounds__(ROW_THREADS)
    scale_rows(RowShape shape, RowMap in, Factors factors, RowMap out) {
  for (int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < shape.rows;
       row += int64_t{gridDim.x} * blockDim.y) {
    const auto of_row = factors.of_row(row);
    const T* from = static_cast<const T*>(in.data) + row * in.stride;
    T* to = static_cast<T*>(out.data) + row * out.stride;
    for (int channel = static_cast<int>(threadIdx.x) * V; channel < out.stride;
         channel += static_cast<int>(blockDim.x) * V) {
      float values[V] = {}, by[V];
      if (channel < shape.channels) load_pack<T, V>(from + channel, values);
      of_row.load(channel, shape.channels, by);
#pragma unroll
      for (int i = 0; i < V; ++i) values[i] *= by[i];
      store_pack<T, V>(to + channel, values, channel, shape.channels);
    }
  }
}

/// `out` may be `in`.
template <typename Factors>
void launch_scale_rows(const RowShape& shape, const RowMap& in, const Factors& factors, const RowMap& out,
                       cudaStream_t stream) {
  for_dtype(shape.dtype, [&](auto type) {
    using T = decltype(type);
    const auto run = [&](auto width) {
      constexpr int V = decltype(width)::value;
      const dim3 block = row_block((out.stride + V - 1) / V);
      scale_rows<T, V><<<row_grid(shape.rows, block), block, 0, stream>>>(shape, in, factors, out);
    };
    if (pack_width<T>({in, out}) == 1)
      run(std::integral_constant<int, 1>{});
    else
      run(std::integral_constant<int, VECTOR<T>>{});
  });
}

template <typename T>
struct SummedMaps {
  const T *x, *dy;
  int64_t x_stride, dy_stride;
};

/// The sums of one slice (blockIdx.y): term.add(row, x, dy, sums) for its rows.
template <typename T, int V, int SUMS, typename Term>
__global__ void __launch_bounds__(ROW_THREADS)
    sum_slices(SummedMaps<T> maps, ChannelSlices slices, Term term, float* partials) {
  __shared__ float shared[SUMS][ROW_THREADS * V];
  const int channels = static_cast<int>(slices.channels);
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V;
  const int64_t first = blockIdx.y * slices.slice_rows;
  const int64_t end = first + slices.slice_rows < slices.rows ? first + slices.slice_rows : slices.rows;
  float sums[SUMS][V] = {};
  if (channel < channels)
    for (int64_t row = first + threadIdx.y; row < end; row += blockDim.y) {
      float x[V], dy[V];
      load_pack<T, V>(maps.x + row * maps.x_stride + channel, x);
      load_pack<T, V>(maps.dy + row * maps.dy_stride + channel, dy);
      term.add(row, x, dy, sums);
    }
  const int width = static_cast<int>(blockDim.x) * V, column = static_cast<int>(threadIdx.x) * V;
#pragma unroll
  for (int s = 0; s < SUMS; ++s)
#pragma unroll
    for (int i = 0; i < V; ++i) shared[s][static_cast<int>(threadIdx.y) * width + column + i] = sums[s][i];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int item = thread; item < SUMS * width; item += ROW_THREADS) {
    const int s = item / width, at = item - s * width;
    const int64_t to = int64_t{blockIdx.x} * width + at;
    if (to >= channels) continue;
    float total = 0.0f;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) total += shared[s][y * width + at];
    partials[(int64_t{blockIdx.y} * SUMS + s) * channels + to] = total;
  }
}

inline constexpr int FINISH_COLUMNS = 32, FINISH_PARTS = 16;

template <int SUMS>
struct SumOutputs {
  float* out[SUMS];
};

/// The slices added up in an order that their number decides.
template <int SUMS>
__global__ void __launch_bounds__(FINISH_COLUMNS* FINISH_PARTS)
    finish_sums(const float* partials, ChannelSlices slices, SumOutputs<SUMS> outputs) {
  __shared__ float shared[FINISH_PARTS][FINISH_COLUMNS];
  const int columns = static_cast<int>(slices.channels) * SUMS;
  const int column = static_cast<int>(blockIdx.x * FINISH_COLUMNS + threadIdx.x);
  float part = 0.0f;
  if (column < columns)
    for (int64_t slice = threadIdx.y; slice < slices.slices; slice += FINISH_PARTS)
      part += partials[slice * columns + column];
  shared[threadIdx.y][threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  float total = 0.0f;
  for (int i = 0; i < FINISH_PARTS; ++i) total += shared[i][threadIdx.x];
  const int sum = column / static_cast<int>(slices.channels);
  outputs.out[sum][column - sum * static_cast<int>(slices.channels)] = total;
}

/// outputs.out[s][c] = sum over rows of what term.add() adds to sums[s] of channel c. Slices' sums lie in
/// `partials`.
template <typename T, int SUMS, typename Term>
void launch_channel_sums(const RowMap& x, const RowMap& dy, const ChannelSlices& slices, const Term& term,
                         float* partials, const SumOutputs<SUMS>& outputs, cudaStream_t stream) {
  const SummedMaps<T> maps{static_cast<const T*>(x.data), static_cast<const T*>(dy.data), x.stride,
                           dy.stride};
  const auto run = [&](auto width) {
    constexpr int V = decltype(width)::value;
    const int64_t packs = (slices.channels + V - 1) / V;
    const dim3 block = row_block(packs);
    const dim3 grid(static_cast<unsigned>((packs + block.x - 1) / block.x),
                    static_cast<unsigned>(slices.slices));
    sum_slices<T, V, SUMS><<<grid, block, 0, stream>>>(maps, slices, term, partials);
  };
  if (pack_width<T>({x, dy}) == 1)
    run(std::integral_constant<int, 1>{});
  else
    run(std::integral_constant<int, VECTOR<T>>{});
  const auto columns = static_cast<unsigned>(slices.channels * SUMS);
  finish_sums<SUMS>
      <<<(columns + FINISH_COLUMNS - 1) / FINISH_COLUMNS, dim3(FINISH_COLUMNS, FINISH_PARTS), 0, stream>>>(
          partials, slices, outputs);
}

}  // namespace tr::device
