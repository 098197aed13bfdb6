#include <algorithm>
#include <bit>

#include "ops/channel_scale/channel_scale_cuda.h"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;

constexpr int THREADS = 256;
constexpr int BLOCK_PIXELS = 32;  // pixels summed in FP32 before double takes over
constexpr int64_t MOST_IMAGES = 65535;

/// A thread for each pack of channels of each pixel of an image, over all images.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    scale(ChannelScaleGeometry g, device::PlaceIndex index, const T* in, const T* factors, T* out) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const device::Place place = index[item];
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    const int64_t pixel = n * g.pixels + place.column;
    Pack<T, V> values{};
    if (V > 1 || place.channel < g.channels) {  // else padding that the input may lack
      values = device::load<T, V>(in + pixel * g.in_stride + place.channel);
      const auto factor = device::load<T, V>(factors + n * g.factors_stride + place.channel);
#pragma unroll
      for (int i = 0; i < V; ++i)
        values.v[i] = device::from_float<T>(device::to_float(values.v[i]) * device::to_float(factor.v[i]));
    }
    device::store(out + pixel * g.out_stride + place.channel, values);
  }
}

/// blockDim.x packs of channels of an image, whose pixels blockDim.y threads share; a power of two.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    sum_products(ChannelScaleGeometry g, const T* dy, const T* x, T* sums) {
  __shared__ double totals[V][THREADS];
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V;
  const int lanes = static_cast<int>(blockDim.y), lane = static_cast<int>(threadIdx.y);
  const int thread = lane * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    double total[V] = {};
    if (channel < g.channels) {
      const T* gradients = dy + n * g.pixels * g.out_stride + channel;
      const T* values = x + n * g.pixels * g.in_stride + channel;
      for (int pixel = lane; pixel < g.pixels;) {
        float sum[V] = {};
        const int end = min(pixel + BLOCK_PIXELS * lanes, g.pixels);
#pragma unroll 4
        for (; pixel < end; pixel += lanes) {
          const auto gradient = device::load<T, V>(gradients + int64_t{pixel} * g.out_stride);
          const auto value = device::load<T, V>(values + int64_t{pixel} * g.in_stride);
#pragma unroll
          for (int i = 0; i < V; ++i)
            sum[i] += device::to_float(gradient.v[i]) * device::to_float(value.v[i]);
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
    if (lane == 0 && channel < g.factors_stride) {
      Pack<T, V> out;
#pragma unroll
      for (int i = 0; i < V; ++i) out.v[i] = device::from_float<T>(static_cast<float>(totals[i][thread]));
      device::store(sums + n * g.factors_stride + channel, out);
    }
    __syncthreads();  // before the next image's sums overwrite these
  }
}

template <typename T, int V>
void launch_scale(const ChannelScaleGeometry& g, const T* in, const T* factors, T* out, cudaStream_t stream) {
  const device::PlaceIndex index(1, g.pixels, g.out_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  scale<T, V><<<blocks, threads, 0, stream>>>(g, index, in, factors, out);
}

template <typename T, int V>
void launch_sums(const ChannelScaleGeometry& g, const T* dy, const T* x, T* sums, cudaStream_t stream) {
  const unsigned packs = static_cast<unsigned>((g.factors_stride + V - 1) / V);
  const unsigned columns = std::min(std::bit_ceil(packs), 32u);
  const dim3 blocks((packs + columns - 1) / columns, static_cast<unsigned>(std::min(g.images, MOST_IMAGES)));
  sum_products<T, V><<<blocks, dim3(columns, THREADS / columns), 0, stream>>>(g, dy, x, sums);
}

}  // namespace

void launch_channel_scale(DType dtype, const ChannelScaleGeometry& g, const void* in, const void* factors,
                          void* out, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    const T *from = static_cast<const T*>(in), *by = static_cast<const T*>(factors);
    T* to = static_cast<T*>(out);
    if (device::takes_vectors<T>(g.in_stride, g.out_stride, g.factors_stride))
      launch_scale<T, device::VECTOR<T>>(g, from, by, to, stream);
    else
      launch_scale<T, 1>(g, from, by, to, stream);
  });
}

void launch_channel_scale_sums(DType dtype, const ChannelScaleGeometry& g, const void* dy, const void* x,
                               void* sums, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    const T *gradient = static_cast<const T*>(dy), *value = static_cast<const T*>(x);
    T* to = static_cast<T*>(sums);
    if (device::takes_vectors<T>(g.in_stride, g.out_stride, g.factors_stride))
      launch_sums<T, device::VECTOR<T>>(g, gradient, value, to, stream);
    else
      launch_sums<T, 1>(g, gradient, value, to, stream);
  });
}

}  // namespace tr
