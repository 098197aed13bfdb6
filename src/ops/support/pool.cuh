/// How threads share the work of a pooling kernel: one for each pack of channels of each pixel of an image
/// (blockIdx.x), over all images (blockIdx.y).
#pragma once

#include <bit>

#include "ops/support/device.cuh"
#include "ops/support/pool_geometry.h"

namespace tr::device {

/// n / divisor for 0 <= n < 2^31, without a division.
class Divider {
 public:
  explicit Divider(uint32_t divisor)
      : shift_(static_cast<uint32_t>(std::bit_width(divisor - 1))),
        multiplier_(static_cast<uint32_t>((((uint64_t{1} << shift_) - divisor) << 32) / divisor + 1)) {}

  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, multiplier_) + n) >> shift_; }

 private:
  uint32_t shift_, multiplier_;
};

/// A pack of V channels of one pixel; `channel` is its first.
struct Place {
  int row, column, channel;
};

/// The places of an image, numbered with channels innermost; `channels` counts padding in.
class PlaceIndex {
 public:
  PlaceIndex(int rows, int columns, int channels, int vector)
      : columns_(columns),
        packs_((channels + vector - 1) / vector),
        vector_(vector),
        items_(static_cast<uint32_t>(rows) * static_cast<uint32_t>(columns_) * static_cast<uint32_t>(packs_)),
        by_columns_(static_cast<uint32_t>(columns_)),
        by_packs_(static_cast<uint32_t>(packs_)) {}

  uint32_t items() const { return items_; }
  __device__ bool has(uint32_t item) const { return item < items_; }
  __device__ Place operator[](uint32_t item) const {
    const uint32_t pixel = by_packs_.quotient(item), row = by_columns_.quotient(pixel);
    return {static_cast<int>(row), static_cast<int>(pixel - row * static_cast<uint32_t>(columns_)),
            static_cast<int>(item - pixel * static_cast<uint32_t>(packs_)) * vector_};
  }

 private:
  int columns_, packs_, vector_;
  uint32_t items_;
  Divider by_columns_, by_packs_;
};

struct ImageGrid {
  dim3 blocks;
  unsigned threads;
};

/// A thread for each place, blocks no larger than an image has use for.
inline ImageGrid image_grid(int64_t images, const PlaceIndex& index) {
  constexpr uint32_t MOST_THREADS = 256, WARP = 32, MOST_IMAGES = 65535;
  const uint32_t warps = (index.items() + WARP - 1) / WARP;
  const uint32_t threads = warps * WARP < MOST_THREADS ? warps * WARP : MOST_THREADS;
  return {dim3((index.items() + threads - 1) / threads,
               images < MOST_IMAGES ? static_cast<uint32_t>(images) : MOST_IMAGES),
          threads};
}

/// The windows along one axis that hold the input `at`: first … end - 1.
struct WindowsOf {
  __device__ WindowsOf(const PoolGeometry& g, int at, int windows)
      : first(at + g.padding < g.kernel ? 0 : (at + g.padding - g.kernel) / g.stride + 1),
        end(min((at + g.padding) / g.stride + 1, windows)) {}
  int first, end;
};

/// Whether packs of 16 bytes fall on whole elements with each of these pixel strides.
template <typename T, typename... Strides>
bool takes_vectors(Strides... strides) {
  return ((strides % VECTOR<T> == 0) && ...);
}

}  // namespace tr::device
