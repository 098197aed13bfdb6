#include "ops/avgpool/avgpool_cuda.h"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;
using device::Place;
using device::PlaceIndex;

constexpr int PER_IMAGE_THREADS = 256;

/// Pixels of one axis: first … end - 1.
struct Range {
  int first, end;
};

/// The sum over a rectangle of pixels of `image`, `width` pixels wide, V channels of each.
template <typename T, int V>
struct RectangleSum {
  __device__ RectangleSum(const T* image, const Range& rows, const Range& columns, int width, int stride) {
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = 0.0f;
    for (int row = rows.first; row < rows.end; ++row) {
      const T* line = image + int64_t{row} * width * stride;
#pragma unroll 4
      for (int column = columns.first; column < columns.end; ++column) {
        const auto in = device::load<T, V>(line + column * stride);
#pragma unroll
        for (int i = 0; i < V; ++i) value[i] += device::to_float(in.v[i]);
      }
    }
  }

  float value[V];
};

/// FORWARD: `in` is x and `out` is y, else dy and dx. Either way an output is the sum of a rectangle of
/// inputs times 1 / kernel^2.
template <typename T, int V, bool FORWARD>
__global__ void __launch_bounds__(PER_IMAGE_THREADS)
    average(PoolGeometry g, PlaceIndex index, const T* in, T* out, float weight) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place place = index[item];
  Range rows, columns;
  if constexpr (FORWARD) {
    const int h0 = place.row * g.stride - g.padding, w0 = place.column * g.stride - g.padding;
    rows = {max(h0, 0), min(h0 + g.kernel, g.height)};
    columns = {max(w0, 0), min(w0 + g.kernel, g.width)};
  } else {
    const device::WindowsOf row_windows(g, place.row, g.out_height),
        column_windows(g, place.column, g.out_width);
    rows = {row_windows.first, row_windows.end};
    columns = {column_windows.first, column_windows.end};
  }
  const int in_height = FORWARD ? g.height : g.out_height, in_width = FORWARD ? g.width : g.out_width;
  const int out_height = FORWARD ? g.out_height : g.height, out_width = FORWARD ? g.out_width : g.width;
  const int in_stride = FORWARD ? g.map_stride : g.pooled_stride;
  const int out_stride = FORWARD ? g.pooled_stride : g.map_stride;
  if (place.channel >= g.channels) rows.end = rows.first;  // padding that the input may lack
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    const RectangleSum<T, V> sum(in + n * in_height * in_width * in_stride + place.channel, rows, columns,
                                 in_width, in_stride);
    Pack<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) result.v[i] = device::from_float<T>(sum.value[i] * weight);
    device::store(
        out + ((n * out_height + place.row) * out_width + place.column) * out_stride + place.channel, result);
  }
}

template <bool FORWARD>
void launch_average(DType dtype, const PoolGeometry& g, const void* in, void* out, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int V = device::VECTOR<T>;
    const bool vectors = device::takes_vectors<T>(g.map_stride, g.pooled_stride);
    const int rows = FORWARD ? g.out_height : g.height, columns = FORWARD ? g.out_width : g.width;
    const PlaceIndex index(rows, columns, FORWARD ? g.pooled_stride : g.map_stride, vectors ? V : 1);
    const auto [blocks, threads] = device::image_grid(g.images, index);
    const float weight = 1.0f / (static_cast<float>(g.kernel) * static_cast<float>(g.kernel));
    const T* from = static_cast<const T*>(in);
    T* to = static_cast<T*>(out);
    if (vectors)
      average<T, V, FORWARD><<<blocks, threads, 0, stream>>>(g, index, from, to, weight);
    else
      average<T, 1, FORWARD><<<blocks, threads, 0, stream>>>(g, index, from, to, weight);
  });
}

}  // namespace

void launch_avgpool_forward(DType dtype, const PoolGeometry& geometry, const void* x, void* y,
                            cudaStream_t stream) {
  launch_average<true>(dtype, geometry, x, y, stream);
}

void launch_avgpool_backward(DType dtype, const PoolGeometry& geometry, const void* dy, void* dx,
                             cudaStream_t stream) {
  launch_average<false>(dtype, geometry, dy, dx, stream);
}

}  // namespace tr
