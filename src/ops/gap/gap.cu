#include "ops/gap/gap_cuda.h"
#include "ops/support/pixel_sums.cuh"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

constexpr int THREADS = 256;

template <typename T>
struct Values {
  const T* x;
  int64_t stride;

  template <int V>
  __device__ void add(int64_t pixel, int channel, float (&sum)[V]) const {
    const auto values = device::load<T, V>(x + pixel * stride + channel);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += device::to_float(values.v[i]);
  }
};

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
  const device::PixelSums sums{g.images, g.pixels, g.channels, g.pooled_stride,
                               static_cast<double>(g.pixels)};
  device::launch_pixel_sums<V>(sums, Values<T>{x, g.map_stride}, y, stream);
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
