/// From a stored image to the network's input: scale to 0…1, normalize, resize, pad, crop, flip.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace tr {

/// What happens to a sample between the file and the network's input.
struct Transform {
  int64_t height = 0, width = 0;      ///< of the batch; a dataset of another size is resized (bilinear,
                                      ///< half-pixel centres, as torch's interpolate(align_corners=False))
  std::vector<float> mean, std;       ///< one per channel, or one for all, or empty for 0 and 1; applied to
                                      ///< pixels scaled to 0…1
  int64_t crop_padding = 0;           ///< pixels of 0 around the image, before normalization; then a crop of
                                      ///< height × width, as torchvision's RandomCrop(padding=…)
  bool horizontal_flip = false;       ///< with probability 1/2
};

/// ValueError when `transform` does not fit images of `channels` channels.
void check_transform(const Transform& transform, int64_t channels);

/// The normalized value of every pixel value: table[channel * 256 + pixel] = (pixel / 255 − mean) / std, in
/// FP32 exactly as torchvision's ToTensor and Normalize. `table` holds channels × 256 values.
void fill_lookup_table(const Transform& transform, int64_t channels, std::span<float> table);

/// The random choices for one sample: the crop's corner in the padded image, 0 … 2·crop_padding, and the flip
/// of what was cropped.
struct Placement {
  int64_t top = 0, left = 0;
  bool flip = false;
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
