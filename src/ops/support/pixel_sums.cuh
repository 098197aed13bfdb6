/// Sums over the pixels of each image, channel by channel: 32 pixels in FP32, the sums of those in FP64, in
/// an order that the geometry decides.
#pragma once

#include <algorithm>
#include <bit>

#include "ops/support/device.cuh"

namespace tr::device {

struct PixelSums {
  int64_t images;
  int pixels, channels;  ///< of one image
  int sums_stride;       ///< elements from image to image of the sums, whose padding becomes zero
  double divisor;        ///< of every sum
};

inline constexpr int PIXEL_SUM_THREADS = 256;

/// blockDim.x packs of channels of an image, whose pixels blockDim.y threads share; a power of two.
/// term.add(pixel, channel, sum) adds a pixel's terms of V channels, pixels counted over all images.
template <typename T, int V, typename Term>
__global__ void __launch_bounds__(PIXEL_SUM_THREADS) sum_pixels(PixelSums s, Term term, T* sums) {
  constexpr int BLOCK_PIXELS = 32;  // summed in FP32 before double takes over
  __shared__ double totals[V][PIXEL_SUM_THREADS];
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V;
  const int lanes = static_cast<int>(blockDim.y), lane = static_cast<int>(threadIdx.y);
  const int thread = lane * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  for (int64_t n = blockIdx.y; n < s.images; n += gridDim.y) {
    double total[V] = {};
    if (channel < s.channels)
      for (int pixel = lane; pixel < s.pixels;) {
        float sum[V] = {};
        const int end = min(pixel + BLOCK_PIXELS * lanes, s.pixels);
#pragma unroll 4
        for (; pixel < end; pixel += lanes) term.add(n * s.pixels + pixel, channel, sum);
#pragma unroll
        for (int i = 0; i < V; ++i) total[i] += static_cast<double>(sum[i]);
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
    if (lane == 0 && channel < s.sums_stride) {
      Pack<T, V> out;
#pragma unroll
      for (int i = 0; i < V; ++i) out.v[i] = from_float<T>(static_cast<float>(totals[i][thread] / s.divisor));
      store(sums + n * s.sums_stride + channel, out);
    }
    __syncthreads();  // before the next image's sums overwrite these
  }
}

template <int V, typename T, typename Term>
void launch_pixel_sums(const PixelSums& s, const Term& term, T* sums, cudaStream_t stream) {
  constexpr int64_t MOST_IMAGES = 65535;
  const unsigned packs = static_cast<unsigned>((s.sums_stride + V - 1) / V);
  const unsigned columns = std::min(std::bit_ceil(packs), 32u);
  const dim3 blocks((packs + columns - 1) / columns, static_cast<unsigned>(std::min(s.images, MOST_IMAGES)));
  sum_pixels<T, V><<<blocks, dim3(columns, PIXEL_SUM_THREADS / columns), 0, stream>>>(s, term, sums);
}

}  // namespace tr::device
