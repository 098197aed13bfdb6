#include <algorithm>
#include <limits>

#include "data/dataset.h"
#include "renaissance/core/philox.h"
#include "renaissance/core/types.h"

namespace tr {
namespace {

/// A class's pattern is a coarse grid of this many cells each way, so that it survives crops and resizing.
constexpr int64_t GRID = 4;
constexpr uint32_t PATTERN_STREAM = 0;
// Pattern and noise add up to 0…255 without clamping.
constexpr int32_t PATTERN_LOW = 64, PATTERN_VALUES = 128, NOISE_AMPLITUDE = 64;

/// classes × GRID × GRID × channels brightness values.
std::vector<uint8_t> make_patterns(const Philox& random, int64_t classes, int64_t channels) {
  std::vector<uint8_t> patterns(static_cast<size_t>(Shape(classes, GRID, GRID, channels).numel()));
  for (size_t i = 0; i < patterns.size(); ++i) {
    const uint32_t bits = random.at(RandomPurpose::SYNTHETIC, PATTERN_STREAM, i / 4)[i % 4];
    patterns[i] =
        static_cast<uint8_t>(PATTERN_LOW + static_cast<int32_t>(Philox::below(bits, PATTERN_VALUES)));
  }
  return patterns;
}

}  // namespace

Dataset make_synthetic(uint64_t seed, uint32_t split, int64_t count, int64_t height, int64_t width,
                       int64_t channels, int64_t classes) {
  TR_CHECK(classes > 0 && classes <= std::numeric_limits<int32_t>::max(), ValueError,
           cat("synthetic data: ", classes, " classes; at least 1 is needed"));
  TR_CHECK(split < std::numeric_limits<uint32_t>::max(), ValueError, cat("synthetic data: split ", split));
  Dataset dataset{count, height, width, channels, classes, {}, {}};
  constexpr int64_t MOST_BYTES = 256ll << 20;
  const Shape all(count, height, width, channels);  // refuses impossible sizes
  const int64_t distinct = std::clamp<int64_t>(MOST_BYTES / dataset.image_bytes(), 1, all.n());
  dataset.images.resize(static_cast<size_t>(distinct * dataset.image_bytes()));
  dataset.labels.resize(static_cast<size_t>(distinct));

  const Philox random(seed);
  const std::vector<uint8_t> patterns = make_patterns(random, classes, channels);
  constexpr uint64_t BLOCK_BYTES = 16;
  const auto blocks = (static_cast<uint64_t>(dataset.image_bytes()) + BLOCK_BYTES - 1) / BLOCK_BYTES;
  uint8_t* pixel = dataset.images.data();
  for (int64_t sample = 0; sample < distinct; ++sample) {
    const int64_t label = sample % classes;
    dataset.labels[static_cast<size_t>(sample)] = static_cast<int32_t>(label);
    const uint8_t* pattern = patterns.data() + label * GRID * GRID * channels;
    Philox::Block bits{};
    uint64_t byte = 0;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t c = 0; c < channels; ++c, ++byte, ++pixel) {
          if (byte % BLOCK_BYTES == 0)
            bits = random.at(RandomPurpose::SYNTHETIC, split + 1,
                             static_cast<uint64_t>(sample) * blocks + byte / BLOCK_BYTES);
          const uint32_t noise_bits = bits[byte % BLOCK_BYTES / 4] >> (byte % 4 * 8) & 0xffu;
          const int32_t noise = static_cast<int32_t>(noise_bits) % (2 * NOISE_AMPLITUDE) - NOISE_AMPLITUDE;
          const int64_t cell = (y * GRID / height * GRID + x * GRID / width) * channels + c;
          *pixel = static_cast<uint8_t>(pattern[cell] + noise);
        }
  }
  return dataset;
}

}  // namespace tr
