#include "ops/layer_scale/layer_scale_cuda.h"
#include "ops/support/row_kernels.cuh"

namespace tr {
namespace {

template <typename T, int V>
__global__ void __launch_bounds__(device::ROW_THREADS)
    scale_rows(RowShape shape, RowMap in, const float* scale, RowMap out) {
  for (int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < shape.rows;
       row += int64_t{gridDim.x} * blockDim.y) {
    const T* from = static_cast<const T*>(in.data) + row * in.stride;
    T* to = static_cast<T*>(out.data) + row * out.stride;
    for (int channel = static_cast<int>(threadIdx.x) * V; channel < out.stride;
         channel += static_cast<int>(blockDim.x) * V) {
      float values[V] = {}, factors[V];
      if (channel < shape.channels) device::load_pack<T, V>(from + channel, values);
      device::load_channels<V>(scale, channel, shape.channels, factors);
#pragma unroll
      for (int i = 0; i < V; ++i) values[i] *= factors[i];
      device::store_pack<T, V>(to + channel, values, channel, shape.channels);
    }
  }
}

template <typename T, int V>
void scale_map(const RowShape& shape, const RowMap& in, const float* scale, const RowMap& out,
               cudaStream_t stream) {
  const dim3 block = device::row_block((out.stride + V - 1) / V);
  scale_rows<T, V><<<device::row_grid(shape.rows, block), block, 0, stream>>>(shape, in, scale, out);
}

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
  device::for_dtype(shape.dtype, [&](auto type) {
    using T = decltype(type);
    if (device::pack_width<T>({in, out}) == 1)
      scale_map<T, 1>(shape, in, scale, out, stream);
    else
      scale_map<T, device::VECTOR<T>>(shape, in, scale, out, stream);
  });
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
