#include <algorithm>
#include <bit>

#include "ops/gap/gap_cuda.h"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;

constexpr int THREADS = 256;
constexpr int BLOCK_PIXELS = 32;  // pixels summed in FP32 before double takes over
constexpr int64_t MOST_IMAGES = 65535;

/// blockDim.x packs of channels of an image, whose pixels blockDim.y threads share; a power of two.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS) gap_forward(GapGeometry g, const T* x, T* y) {
  __shared__ double totals[V][THREADS];
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V;
  const int lanes = static_cast<int>(blockDim.y), lane = static_cast<int>(threadIdx.y);
  const int thread = lane * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    double total[V] = {};
    if (channel < g.channels) {
      const T* image = x + n * g.pixels * g.map_stride + channel;
      for (int pixel = lane; pixel < g.pixels;) {
        float sum[V] = {};
        const int end = min(pixel + BLOCK_PIXELS * lanes, g.pixels);
#pragma unroll 4
        for (; pixel < end; pixel += lanes) {
          const auto values = device::load<T, V>(image + int64_t{pixel} * g.map_stride);
#pragma unroll
          for (int i = 0; i < V; ++i) sum[i] += device::to_float(values.v[i]);
        }
#pragma unroll
        for (int i = 0; i < V; ++i) total[i] += static_cast<double>(sum[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < V; ++i) totals[i][thread] = total[i];
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane >= half) continue;
#pragma unroll
      for (int i = 0; i < V; ++i)
        totals[i][thread] += totals[i][thread + half * static_cast<int>(blockDim.x)];
    }
    if (lane == 0 && channel < g.pooled_stride) {
      Pack<T, V> mean;
#pragma unroll
      for (int i = 0; i < V; ++i)
        mean.v[i] =
            device::from_float<T>(static_cast<float>(totals[i][thread] / static_cast<double>(g.pixels)));
      device::store(y + n * g.pooled_stride + channel, mean);
    }
    __syncthreads();  // before the next image's sums overwrite these
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    gap_backward(GapGeometry g, device::PlaceIndex index, const T* dy, T* dx, float weight) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const device::Place place = index[item];
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    auto values = device::load<T, V>(dy + n * g.pooled_stride + place.channel);
#pragma unroll
    for (int i = 0; i < V; ++i) values.v[i] = device::from_float<T>(device::to_float(values.v[i]) * weight);
    device::store(dx + (n * g.pixels + place.column) * g.map_stride + place.channel, values);
  }
}

template <typename T, int V>
void forward(const GapGeometry& g, const T* x, T* y, cudaStream_t stream) {
  const unsigned packs = static_cast<unsigned>((g.pooled_stride + V - 1) / V);
  const unsigned columns = std::min(std::bit_ceil(packs), 32u);
  const dim3 blocks((packs + columns - 1) / columns, static_cast<unsigned>(std::min(g.images, MOST_IMAGES)));
  gap_forward<T, V><<<blocks, dim3(columns, THREADS / columns), 0, stream>>>(g, x, y);
}

template <typename T, int V>
void backward(const GapGeometry& g, const T* dy, T* dx, cudaStream_t stream) {
  const device::PlaceIndex index(1, g.pixels, g.map_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  gap_backward<T, V><<<blocks, threads, 0, stream>>>(g, index, dy, dx, 1.0f / static_cast<float>(g.pixels));
}

}  // namespace

void launch_gap_forward(DType dtype, const GapGeometry& g, const void* x, void* y, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (device::takes_vectors<T>(g.map_stride, g.pooled_stride))
      forward<T, device::VECTOR<T>>(g, from, to, stream);
    else
      forward<T, 1>(g, from, to, stream);
  });
}

void launch_gap_backward(DType dtype, const GapGeometry& g, const void* dy, void* dx, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    const T* from = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    if (device::takes_vectors<T>(g.map_stride, g.pooled_stride))
      backward<T, device::VECTOR<T>>(g, from, to, stream);
    else
      backward<T, 1>(g, from, to, stream);
  });
}

}  // namespace tr
