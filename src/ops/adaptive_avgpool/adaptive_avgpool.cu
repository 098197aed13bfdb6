#include "ops/adaptive_avgpool/adaptive_avgpool.h"
#include "ops/adaptive_avgpool/adaptive_avgpool_cuda.h"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;
using device::Place;
using device::PlaceIndex;

constexpr int THREADS = 256;

/// A thread for each pack of channels of each pixel of an image of the output: of y if FORWARD, else of dx.
template <typename T, int V, bool FORWARD>
__global__ void __launch_bounds__(THREADS)
    adaptive_average(AdaptiveGeometry g, PlaceIndex index, const T* in, T* out) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place place = index[item];
  const AdaptiveAxis<int> rows(g.height, g.out_height), columns(g.width, g.out_width);
  const int first_row = FORWARD ? rows.first_input(place.row) : rows.first_output(place.row);
  const int first_column = FORWARD ? columns.first_input(place.column) : columns.first_output(place.column);
  const int end_column = FORWARD ? columns.end_input(place.column) : columns.end_output(place.column);
  int end_row = FORWARD ? rows.end_input(place.row) : rows.end_output(place.row);
  if (place.channel >= g.channels) end_row = first_row;  // padding that the input may lack
  const int in_height = FORWARD ? g.height : g.out_height, in_width = FORWARD ? g.width : g.out_width;
  const int out_height = FORWARD ? g.out_height : g.height, out_width = FORWARD ? g.out_width : g.width;
  const int in_stride = FORWARD ? g.map_stride : g.pooled_stride;
  const int out_stride = FORWARD ? g.pooled_stride : g.map_stride;
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    const T* image = in + n * in_height * in_width * in_stride + place.channel;
    float sum[V] = {};
    for (int row = first_row; row < end_row; ++row) {
      for (int column = first_column; column < end_column; ++column) {
        const auto values = device::load<T, V>(image + (int64_t{row} * in_width + column) * in_stride);
        float factor = 1.0f;
        if (!FORWARD) factor /= static_cast<float>(rows.inputs_of(row) * columns.inputs_of(column));
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += device::to_float(values.v[i]) * factor;
      }
    }
    const int pixels = FORWARD ? rows.inputs_of(place.row) * columns.inputs_of(place.column) : 1;
    Pack<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) result.v[i] = device::from_float<T>(sum[i] / static_cast<float>(pixels));
    device::store(
        out + ((n * out_height + place.row) * out_width + place.column) * out_stride + place.channel, result);
  }
}

template <bool FORWARD>
void launch(DType dtype, const AdaptiveGeometry& g, const void* in, void* out, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int V = device::VECTOR<T>;
    const bool vectors = device::takes_vectors<T>(g.map_stride, g.pooled_stride);
    const PlaceIndex index(FORWARD ? g.out_height : g.height, FORWARD ? g.out_width : g.width,
                           FORWARD ? g.pooled_stride : g.map_stride, vectors ? V : 1);
    const auto [blocks, threads] = device::image_grid(g.images, index);
    const T* from = static_cast<const T*>(in);
    T* to = static_cast<T*>(out);
    if (vectors)
      adaptive_average<T, V, FORWARD><<<blocks, threads, 0, stream>>>(g, index, from, to);
    else
      adaptive_average<T, 1, FORWARD><<<blocks, threads, 0, stream>>>(g, index, from, to);
  });
}

}  // namespace

void launch_adaptive_avgpool_forward(DType dtype, const AdaptiveGeometry& geometry, const void* x, void* y,
                                     cudaStream_t stream) {
  launch<true>(dtype, geometry, x, y, stream);
}

void launch_adaptive_avgpool_backward(DType dtype, const AdaptiveGeometry& geometry, const void* dy, void* dx,
                                      cudaStream_t stream) {
  launch<false>(dtype, geometry, dy, dx, stream);
}

}  // namespace tr
