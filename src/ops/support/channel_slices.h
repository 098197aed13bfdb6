/// How CUDA kernels cut the rows of a [rows, channels] map where they sum over rows for each channel: each
/// slice leaves its sums in the workspace, and a second kernel adds the slices up in order. The map alone
/// decides, so that plans need no device and results no luck.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tr {

struct ChannelSlices {
  ChannelSlices(int64_t all_rows, int64_t all_channels, int64_t sums_of_each)
      : rows(all_rows), channels(all_channels), sums(sums_of_each) {
    constexpr int64_t LEAST_ROWS = 64, MOST_SLICES = 256;
    const int64_t wanted = std::clamp<int64_t>(rows / LEAST_ROWS, 1, MOST_SLICES);
    slice_rows = (rows + wanted - 1) / wanted;
    slices = (rows + slice_rows - 1) / slice_rows;
  }

  /// FP32 [slices, sums, channels].
  int64_t workspace_bytes() const { return slices * sums * channels * 4; }

  int64_t rows, channels, sums;
  int64_t slice_rows, slices;
};

}  // namespace tr
