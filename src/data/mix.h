/// Mixup and CutMix of one batch: what to mix, drawn by counter, and the mixing of normalized pixels. The
/// loss mixes the labels. Conventions: include/renaissance/core/batch_mix.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "renaissance/core/batch_mix.h"
#include "renaissance/core/types.h"

namespace tr {

/// As timm's Mixup in mode "batch": one λ for all samples of a batch, drawn from Beta(alpha, alpha).
struct MixSettings {
  double mixup_alpha = 0.0, cutmix_alpha = 0.0;  ///< 0: not used
  double cutmix_probability = 0.5;               ///< of a mixed batch, where both are used
  double probability = 1.0;                      ///< of a batch to be mixed

  bool mixes() const { return mixup_alpha > 0.0 || cutmix_alpha > 0.0; }
};

/// ValueError for an alpha below 0 or not finite, or a probability outside 0…1.
void check_mix(const MixSettings& settings);

/// Keyed by (seed, purpose, epoch, batch); `batch` below 2^32 tells an epoch's batches apart. CutMix: a box
/// of the share 1 - λ of height × width around a pixel drawn evenly, cut at the image's edges; `share` is
/// that of what is left of it.
BatchMix draw_mix(const MixSettings& settings, uint64_t seed, int64_t epoch, int64_t batch, int64_t height,
                  int64_t width);

/// Normalized pixels of a whole batch, NHWC, `pixel_stride` elements from pixel to pixel.
struct PixelBatch {
  std::byte* data = nullptr;
  DType dtype = DType::FP32;  ///< FP32, FP16 or BF16; 16-bit results are rounded to nearest even
  int64_t samples = 0, height = 0, width = 0, pixel_stride = 0;

  /// Samples and their partners; the middle one of an odd number is its own.
  int64_t pairs() const { return (samples + 1) / 2; }
};

/// Mixes the pairs first … last - 1 in place.
void mix_pixels(const BatchMix& mix, const PixelBatch& batch, int64_t first, int64_t last);

}  // namespace tr
