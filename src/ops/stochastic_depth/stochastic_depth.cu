#include "ops/stochastic_depth/stochastic_depth_cuda.h"
#include "ops/support/row_kernels.cuh"

namespace tr {
namespace {

constexpr int MASK_THREADS = 256;

__global__ void __launch_bounds__(MASK_THREADS)
    draw_mask(StochasticDepthMask mask, StochasticDepthDraw draw, const int32_t* seed, const int32_t* counter,
              int64_t samples) {
  const int64_t n = int64_t{blockIdx.x} * MASK_THREADS + threadIdx.x;
  if (n < mask.bytes) mask.kept[n] = n < samples && draw.keeps(*seed, *counter, n) ? 1 : 0;
}

template <typename T, int V>
__global__ void __launch_bounds__(device::ROW_THREADS)
    scale_samples(StochasticDepthMaps maps, const uint8_t* kept, float scale) {
  const int64_t sample_rows = maps.shape.rows / maps.samples;
  for (int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < maps.shape.rows;
       row += int64_t{gridDim.x} * blockDim.y) {
    const float factor = kept[row / sample_rows] != 0 ? scale : 0.0f;
    const T* from = static_cast<const T*>(maps.in.data) + row * maps.in.stride;
    T* to = static_cast<T*>(maps.out.data) + row * maps.out.stride;
    for (int channel = static_cast<int>(threadIdx.x) * V; channel < maps.out.stride;
         channel += static_cast<int>(blockDim.x) * V) {
      float values[V] = {};
      if (channel < maps.shape.channels) device::load_pack<T, V>(from + channel, values);
#pragma unroll
      for (int i = 0; i < V; ++i) values[i] *= factor;
      device::store_pack<T, V>(to + channel, values, channel, maps.shape.channels);
    }
  }
}

template <typename T, int V>
void scale_map(const StochasticDepthMaps& maps, const uint8_t* kept, float scale, cudaStream_t stream) {
  const dim3 block = device::row_block((maps.out.stride + V - 1) / V);
  scale_samples<T, V><<<device::row_grid(maps.shape.rows, block), block, 0, stream>>>(maps, kept, scale);
}

}  // namespace

void launch_stochastic_depth_by_mask(const StochasticDepthMaps& maps, const uint8_t* kept, float scale,
                                     cudaStream_t stream) {
  device::for_dtype(maps.shape.dtype, [&](auto type) {
    using T = decltype(type);
    if (device::pack_width<T>({maps.in, maps.out}) == 1)
      scale_map<T, 1>(maps, kept, scale, stream);
    else
      scale_map<T, device::VECTOR<T>>(maps, kept, scale, stream);
  });
}

void launch_stochastic_depth_forward(const StochasticDepthMaps& maps, const StochasticDepthMask& mask,
                                     const StochasticDepthDraw& draw, const int32_t* seed,
                                     const int32_t* counter, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((mask.bytes + MASK_THREADS - 1) / MASK_THREADS);
  draw_mask<<<blocks, MASK_THREADS, 0, stream>>>(mask, draw, seed, counter, maps.samples);
  launch_stochastic_depth_by_mask(maps, mask.kept, draw.scale, stream);
}

}  // namespace tr
