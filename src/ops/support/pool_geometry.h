/// What the pooling operators tell their CUDA kernels, as plain numbers.
///   map: [images, height, width, channels]   pooled: [images, out_height, out_width, channels]
#pragma once

#include <algorithm>

#include "ops/support/pool.h"

namespace tr {

struct PoolGeometry {
  int64_t images;
  int height, width, out_height, out_width, channels;
  int kernel, stride, padding;
  int map_stride, pooled_stride;  ///< elements from pixel to pixel
};

/// `map` is x or dx, `pooled` is y or dy.
inline PoolGeometry pool_geometry(const OpQuery& query, const DTensor& map, const DTensor& pooled) {
  const Shape &x = query.x[0], &y = query.y;
  const int64_t pixels = std::max(x.h() * x.w(), y.h() * y.w());
  TR_CHECK(pixels * round_up(x.c(), 8) < int64_t{1} << 30, ShapeError,
           cat(query.layer, ": one image of ", x,
               " is too large for the CUDA kernels; expected fewer than 2^30 elements"));
  const PoolAttributes pool(query.attrs);
  // A longer step than this also leaves one window only.
  const int64_t stride = std::min(pool.stride, std::max(x.h(), x.w()) + 2 * pool.padding);
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  return {x.n(),
          narrow(x.h()),
          narrow(x.w()),
          narrow(y.h()),
          narrow(y.w()),
          narrow(x.c()),
          narrow(pool.kernel),
          narrow(stride),
          narrow(pool.padding),
          narrow(map.strides[2]),
          narrow(pooled.strides[2])};
}

}  // namespace tr
