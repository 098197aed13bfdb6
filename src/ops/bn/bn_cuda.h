/// The CUDA kernels of batch normalization. All enqueue on a stream and return at once.
/// Maps are [pixels, channels] with a pixel stride of their own, in `Extent::dtype`; what is per channel is
/// dense FP32. Channels past the last, up to the stride, are written as zeros.
/// Sums are added in an order that depends on the extent alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "renaissance/core/types.h"

namespace tr::bn_cuda {

/// Channels that one thread works on.
inline constexpr int GROUP = 8;
/// Partial sums are kept of at most so many slices of the pixels.
inline constexpr int MOST_SLICES = 256;
/// Floats of the partial sums: of each slice, two per channel.
constexpr int64_t partial_floats(int64_t channels) { return MOST_SLICES * 2 * round_up(channels, GROUP); }

struct ConstMap {
  const void* data = nullptr;
  int stride = 0;
};
struct MutableMap {
  void* data = nullptr;
  int stride = 0;
};

struct Extent {
  DType dtype = DType::FP32;
  int pixels = 0, channels = 0;
  bool vectors = false;  ///< every stride is a multiple of GROUP: no thread needs to look at single elements
  int multiprocessors = 1;
};

/// What a batch's statistics become: kept for backward, and the step of the running ones.
struct BatchStatistics {
  float *mean, *inverse_std;
  const float *prev_mean, *prev_variance;
  float *next_mean, *next_variance;
  double momentum, epsilon;
  double share, unbiased;  ///< 1 / pixels, pixels / (pixels - 1)
  const float* offset;     ///< per channel, what x lacks and the running mean counts; may be null
};

/// Mean and inverse standard deviation of each channel of x, and the running statistics. `partials` has
/// partial_floats() elements; `counters`, one per 64 channels where pixels are split, are zero before and
/// after.
void launch_statistics(const Extent& extent, ConstMap x, const BatchStatistics& statistics, float* partials,
                       int32_t* counters, cudaStream_t stream);

/// Where the mean and the inverse standard deviation come from: `sums` that the producer of x left (the rest
/// of BatchStatistics is then computed too), BatchStatistics::mean and inverse_std, or its prev_ statistics.
/// FOLDED: they are part of weight and bias already.
/// FIXED: as RUNNING, kept as the batch's and passed on.
enum class Moments : uint8_t { SUMS, BATCH, RUNNING, FOLDED, FIXED };

struct Normalization {
  ConstMap x, x1;  ///< x1.data is null without a residual
  MutableMap y;
  bool relu = false;
  uint8_t* mask = nullptr;  ///< bits of what the ReLU let through, where wanted: see bn.h
  int mask_padding = 0;     ///< bytes after the mask to set to zero
  const float *weight = nullptr, *bias = nullptr;
  Moments moments = Moments::RUNNING;
  const float* sums = nullptr;  ///< two rows of sums_stride: sum, sum of squares
  int sums_stride = 0;
  BatchStatistics statistics{};
};
void launch_normalize(const Extent& extent, const Normalization& normalization, cudaStream_t stream);

/// Where backward takes the ReLU mask from: nowhere, x once more, or the bits that forward left.
enum class MaskFrom : uint8_t { NONE, X, BITS };

struct Gradients {
  ConstMap x;
  ConstMap dy[2];  ///< y's gradient is their sum; the second only where x1 gets a gradient, else null
  MaskFrom mask_from = MaskFrom::NONE;
  const uint8_t* mask = nullptr;
  const float *weight = nullptr, *bias = nullptr;  ///< bias is read for MaskFrom::X alone
  const float *mean = nullptr, *inverse_std = nullptr;
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
  bool fixed_statistics = false;  ///< the mean and the deviation do not depend on x
  MutableMap dx;
};

/// weight_gradient and bias_gradient. Where dx has data, it becomes the gradient of the sum, which is x1's;
/// the sums are of the gradient before it is rounded to dx.
void launch_gradient_sums(const Extent& extent, const Gradients& gradients, float* partials,
                          int32_t* counters, cudaStream_t stream);
/// dx, the gradient of x, from the two gradients that launch_gradient_sums left.
void launch_input_gradient(const Extent& extent, const Gradients& gradients, cudaStream_t stream);

}  // namespace tr::bn_cuda
