/// From a stored image to the network's input: scale to 0…1, normalize, resize, pad, crop, flip, erase.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/mix.h"

namespace tr {

/// Random erasing, after everything else. Source: Z. Zhong et al., "Random erasing data augmentation", AAAI
/// 2020; the box as torchvision's RandomErasing chooses it: ten tries at an area and a ratio, then nothing is
/// erased.
struct Erasing {
  double probability = 0.0;
  double least_area = 0.02, most_area = 0.33;  ///< fractions of the image
  double least_ratio = 0.3, most_ratio = 3.3;  ///< height / width
  /// Of erased pixels, after normalization. As bytes they are the ones nearest to it, from 0 to 255: half a
  /// byte, 1 / (510 std), away from it at most where it lies in their range.
  double value = 0.0;
};

/// What happens to a sample between the file and the network's input.
struct Transform {
  int64_t height = 0, width = 0;  ///< of the batch; a dataset of another size is resized (bilinear,
                                  ///< half-pixel centres, as torch's interpolate(align_corners=False))
  std::vector<float> mean, std;   ///< one per channel, or one for all, or empty for 0 and 1; applied to
                                  ///< pixels scaled to 0…1
  int64_t crop_padding = 0;       ///< pixels of 0 around the image, before normalization; then a crop of
                                  ///< height × width, as torchvision's RandomCrop(padding=…)
  bool horizontal_flip = false;   ///< with probability 1/2
  Erasing erasing;
  MixSettings mix;  ///< between the samples of a batch, after all of the above
};

/// ValueError when `transform` does not fit images of `channels` channels.
void check_transform(const Transform& transform, int64_t channels);

/// The normalized value of every pixel value: table[channel * 256 + pixel] = (pixel / 255 − mean) / std, in
/// FP32 exactly as torchvision's ToTensor and Normalize. `table` holds channels × 256 values.
void fill_lookup_table(const Transform& transform, int64_t channels, std::span<float> table);

/// Rows top … top + height - 1, columns left … left + width - 1.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// The random choices for one sample: the crop's corner in the padded image, 0 … 2·crop_padding, the flip of
/// what was cropped, and what of the result is erased.
struct Placement {
  int64_t top = 0, left = 0;
  bool flip = false;
  Box erased = {};
};

/// Keyed by (seed, purpose, epoch, sample), drawn only for what `transform` asks for.
Placement draw_placement(const Transform& transform, uint64_t seed, int64_t epoch, int64_t sample);

/// Writes `sample` to `out`, height × width × channels of `transform`.
void transform_sample(const Dataset& dataset, int64_t sample, const Transform& transform,
                      const Placement& placement, std::span<const float> table, float* out);

/// The same without the normalization, as bytes; padding is 0, resized pixels are rounded to nearest.
void place_sample(const Dataset& dataset, int64_t sample, const Transform& transform,
                  const Placement& placement, uint8_t* out);

}  // namespace tr
