#include "ops/layer_scale/layer_scale_cuda.h"
#include "ops/support/row_kernels.cuh"

namespace tr {
namespace {

struct ChannelFactors {
  const float* scale;

  __device__ ChannelFactors of_row(int64_t) const { return *this; }
  template <int V>
  __device__ void load(int channel, int channels, float (&values)[V]) const {
    device::load_channels<V>(scale, channel, channels, values);
  }
};

struct Products {
  template <int V>
  __device__ void add(int64_t, const float (&x)[V], const float (&dy)[V], float (&sums)[1][V]) const {
#pragma unroll
    for (int i = 0; i < V; ++i) sums[0][i] += x[i] * dy[i];
  }
};

}  // namespace

void launch_layer_scale(const RowShape& shape, const RowMap& in, const float* scale, const RowMap& out,
                        cudaStream_t stream) {
  device::launch_scale_rows(shape, in, ChannelFactors{scale}, out, stream);
}

void launch_layer_scale_gradient(const RowShape& shape, const RowMap& x, const RowMap& dy, float* gradient,
                                 float* workspace, cudaStream_t stream) {
  const ChannelSlices slices(shape.rows, shape.channels, 1);
  device::for_dtype(shape.dtype, [&](auto type) {
    device::launch_channel_sums<decltype(type), 1>(x, dy, slices, Products{}, workspace, {{gradient}},
                                                   stream);
  });
}

}  // namespace tr
