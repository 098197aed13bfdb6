#include "ops/channel_scale/channel_scale_cuda.h"
#include "ops/support/pixel_sums.cuh"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;

constexpr int THREADS = 256;

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

template <typename T>
struct Products {
  const T *dy, *x;
  int64_t dy_stride, x_stride;

  template <int V>
  __device__ void add(int64_t pixel, int channel, float (&sum)[V]) const {
    const auto gradients = device::load<T, V>(dy + pixel * dy_stride + channel);
    const auto values = device::load<T, V>(x + pixel * x_stride + channel);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += device::to_float(gradients.v[i]) * device::to_float(values.v[i]);
  }
};

template <typename T, int V>
void launch_scale(const ChannelScaleGeometry& g, const T* in, const T* factors, T* out, cudaStream_t stream) {
  const device::PlaceIndex index(1, g.pixels, g.out_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  scale<T, V><<<blocks, threads, 0, stream>>>(g, index, in, factors, out);
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
    const Products<T> products{static_cast<const T*>(dy), static_cast<const T*>(x), g.out_stride,
                               g.in_stride};
    const device::PixelSums over{g.images, g.pixels, g.channels, g.factors_stride, 1.0};
    T* to = static_cast<T*>(sums);
    if (device::takes_vectors<T>(g.in_stride, g.out_stride, g.factors_stride))
      device::launch_pixel_sums<device::VECTOR<T>>(over, products, to, stream);
    else
      device::launch_pixel_sums<1>(over, products, to, stream);
  });
}

}  // namespace tr
