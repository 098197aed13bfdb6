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

struct SampleFactor {
  float factor;

  template <int V>
  __device__ void load(int, int, float (&values)[V]) const {
#pragma unroll
    for (int i = 0; i < V; ++i) values[i] = factor;
  }
};

struct SampleFactors {
  const uint8_t* kept;
  int64_t sample_rows;
  float scale;

  __device__ SampleFactor of_row(int64_t row) const { return {kept[row / sample_rows] != 0 ? scale : 0.0f}; }
};

}  // namespace

void launch_stochastic_depth_by_mask(const StochasticDepthMaps& maps, const uint8_t* kept, float scale,
                                     cudaStream_t stream) {
  const SampleFactors factors{kept, maps.shape.rows / maps.samples, scale};
  device::launch_scale_rows(maps.shape, maps.in, factors, maps.out, stream);
}

void launch_stochastic_depth_forward(const StochasticDepthMaps& maps, const StochasticDepthMask& mask,
                                     const StochasticDepthDraw& draw, const int32_t* seed,
                                     const int32_t* counter, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((mask.bytes + MASK_THREADS - 1) / MASK_THREADS);
  draw_mask<<<blocks, MASK_THREADS, 0, stream>>>(mask, draw, seed, counter, maps.samples);
  launch_stochastic_depth_by_mask(maps, mask.kept, draw.scale, stream);
}

}  // namespace tr
