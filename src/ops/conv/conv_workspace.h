/// What the CUDA passes of a convolution keep in their workspace: pure functions of the query, valid with no
/// CUDA in the build.
#pragma once

#include <algorithm>
#include <bit>

#include "ops/conv/conv.h"
#include "ops/support/workspace.h"

namespace tr {

/// How sums over the pixels of a map, one per channel, are divided among blocks of THREADS threads: `columns`
/// threads side by side over the channels, the others over pixels. Each block leaves a row of partial sums.
struct ChannelSumGrid {
  static constexpr int THREADS = 256;
  static constexpr int MOST_COLUMNS = 32;
  static constexpr int64_t LEAST_ROUNDS = 8;     ///< pixels of a thread
  static constexpr int64_t WANTED_BLOCKS = 528;  ///< four for each of 132 multiprocessors

  ChannelSumGrid(int64_t pixels, int64_t pixel_stride, int64_t element_bytes)
      : vector(pixel_stride * element_bytes % 16 == 0 ? 16 / element_bytes : 1) {
    const int64_t vectors = pixel_stride / vector;
    columns =
        std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors))), MOST_COLUMNS);
    column_blocks = (vectors + columns - 1) / columns;
    const int64_t least_pixels = THREADS / columns * LEAST_ROUNDS;
    const int64_t most_slices = (pixels + least_pixels - 1) / least_pixels;
    slices = std::clamp<int64_t>(WANTED_BLOCKS / column_blocks, 1, most_slices);
    slice_pixels = (pixels + slices - 1) / slices;
    slices = (pixels + slice_pixels - 1) / slice_pixels;
    partial_bytes = slices * 2 * pixel_stride * static_cast<int64_t>(sizeof(double));
  }

  int64_t vector;   ///< channels that a thread loads at once
  int64_t columns;  ///< a power of two
  int64_t column_blocks;
  int64_t slices;
  int64_t slice_pixels;   ///< the last slice may have fewer
  int64_t partial_bytes;  ///< FP64 [slices, 2, pixel_stride]
};

/// One pass's workspace; with no base only its size.
struct ConvWorkspace {
  ConvWorkspace(const OpQuery& query, Pass pass, std::byte* base = nullptr)
      : scratch_bytes(query.target.workspace_cap_bytes) {
    const ConvAttributes conv(query.attrs);
    const bool sixteen_bits = query.dtype != DType::FP32;
    const Region features = sixteen_bits ? Region::F_FEATURE_FP16 : Region::F_FEATURE_FP32;
    const auto stride = [&](int64_t channels, Region region) {
      return round_up(channels, channel_alignment(query.dtype, region, BackendKind::CUDA));
    };
    x_stride = stride(query.x[0].c(), query.reads_network_input ? Region::I_A_DATA : features);
    y_stride = stride(query.y.c(), features);
    padded = x_stride != query.x[0].c() || y_stride != query.y.c();
    WorkspaceSlices slices(base);
    scratch = slices.take(scratch_bytes);
    if (padded && conv.groups == 1)
      weight = slices.take(y_stride * conv.kernel * conv.kernel * x_stride * dtype_bytes(query.dtype));
    const bool sums = pass == Pass::FORWARD
                          ? query.statistics >= 2
                          : pass == Pass::BACKWARD_WEIGHT && conv.bias && query.statistics == 0;
    if (sums)
      partials = slices.take(
          ChannelSumGrid(query.y.n() * query.y.h() * query.y.w(), y_stride, dtype_bytes(query.dtype))
              .partial_bytes);
    bytes = slices.bytes();
  }

  int64_t scratch_bytes;
  int64_t x_stride, y_stride;    ///< elements from pixel to pixel
  bool padded;                   ///< either stride exceeds the channels
  std::byte* scratch = nullptr;  ///< for cuDNN, or the partial weight gradients of our own kernels
  std::byte* weight =
      nullptr;  ///< [y_stride, R, S, x_stride]: weights or their gradient, padded; groups == 1
  std::byte* partials = nullptr;  ///< of sums over pixels
  int64_t bytes = 0;
};

}  // namespace tr
