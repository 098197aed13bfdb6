#include "data/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "renaissance/core/philox.h"

namespace tr {
namespace {

constexpr int64_t PIXEL_VALUES = 256;

float channel_value(const std::vector<float>& values, int64_t channel, float absent) {
  if (values.empty()) return absent;
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

/// The output columns [begin, end) of a row that lie on the image; the rest is padding. Before the flip.
struct Columns {
  int64_t begin = 0, end = 0;
};

Columns inner_columns(int64_t width, int64_t shift) {
  return {std::clamp<int64_t>(-shift, 0, width), std::clamp<int64_t>(width - shift, 0, width)};
}

Box draw_erased(const Transform& transform, const Philox& random, uint32_t epoch, uint64_t sample) {
  constexpr uint32_t TRIES = 10;
  const Erasing& erasing = transform.erasing;
  // Samples have 32 bits; the upper half of the index numbers the draws of one sample.
  const auto draw = [&](uint32_t number) {
    return random.at(RandomPurpose::ERASE, epoch, uint64_t{number} << 32 | sample);
  };
  if (!(double{Philox::uniform(draw(0)[0])} < erasing.probability)) return {};
  const auto between = [](double low, double high, uint32_t bits) {
    return low + (high - low) * double{Philox::uniform(bits)};
  };
  const double pixels = static_cast<double>(transform.height) * static_cast<double>(transform.width);
  for (uint32_t attempt = 1; attempt <= TRIES; ++attempt) {
    const Philox::Block bits = draw(attempt);
    const double area = pixels * between(erasing.least_area, erasing.most_area, bits[0]);
    const double ratio =
        std::exp(between(std::log(erasing.least_ratio), std::log(erasing.most_ratio), bits[1]));
    const auto height = std::llrint(std::sqrt(area * ratio)), width = std::llrint(std::sqrt(area / ratio));
    if (height >= transform.height || width >= transform.width) continue;
    const auto corner = [](int64_t last, uint32_t word) -> int64_t {
      return Philox::below(word, static_cast<uint32_t>(last + 1));
    };
    return {corner(transform.height - height, bits[2]), corner(transform.width - width, bits[3]), height,
            width};
  }
  return {};
}

/// What becomes of a pixel value: normalized through the table.
struct Normalized {
  using Out = float;
  const float* table;
  float erased;
  float fill_value(int64_t) const { return erased; }
  float operator()(int64_t channel, uint8_t pixel) const { return table[channel * PIXEL_VALUES + pixel]; }
  static float store(float mixed) { return mixed; }
};

/// Left as it is, for a device that normalizes; what lies between pixels is rounded.
struct Raw {
  using Out = uint8_t;
  const Transform& transform;
  uint8_t fill_value(int64_t channel) const {
    const double pixel = transform.erasing.value * double{channel_value(transform.std, channel, 1.0f)} +
                         double{channel_value(transform.mean, channel, 0.0f)};
    return static_cast<uint8_t>(std::lround(std::clamp(255.0 * pixel, 0.0, 255.0)));
  }
  uint8_t operator()(int64_t, uint8_t pixel) const { return pixel; }
  static uint8_t store(float mixed) { return static_cast<uint8_t>(mixed + 0.5f); }
};

/// Copies `count` pixels; `step` is the distance between output pixels, negative when flipped. CHANNELS 0:
/// any number, given by `channels`.
template <int64_t CHANNELS, typename Values>
void copy_pixels(const uint8_t* in, int64_t count, int64_t channels, const Values& values,
                 typename Values::Out* out, int64_t step) {
  const int64_t c_end = CHANNELS > 0 ? CHANNELS : channels;
  for (int64_t x = 0; x < count; ++x, in += c_end, out += step)
    for (int64_t c = 0; c < c_end; ++c) out[c] = values(c, in[c]);
}

/// Two neighbours along one axis and the share of the second.
struct Neighbours {
  int64_t first, second;
  float share;
};

Neighbours neighbours(int64_t index, int64_t in_size, float scale) {
  const float source = std::max(0.0f, scale * (static_cast<float>(index) + 0.5f) - 0.5f);
  const int64_t first = std::min(static_cast<int64_t>(source), in_size - 1);
  return {first, std::min(first + 1, in_size - 1), source - static_cast<float>(first)};
}

template <typename Values>
struct RowWriter {
  using Out = typename Values::Out;

  const Dataset& dataset;
  const uint8_t* image;
  const Transform& transform;
  Values values;
  int64_t shift;  ///< image column = output column + shift
  int64_t step;   ///< elements from one output pixel to the next
  Columns columns;

  void fill(Out* out, int64_t count) const {
    for (int64_t x = 0; x < count; ++x, out += step)
      for (int64_t c = 0; c < dataset.channels; ++c) out[c] = values(c, 0);
  }

  void copy(int64_t row, Out* out) const {
    const int64_t channels = dataset.channels;
    const uint8_t* in = image + (row * dataset.width + columns.begin + shift) * channels;
    const int64_t count = columns.end - columns.begin;
    if (channels == 1)
      copy_pixels<1>(in, count, channels, values, out, step);
    else if (channels == 3)
      copy_pixels<3>(in, count, channels, values, out, step);
    else
      copy_pixels<0>(in, count, channels, values, out, step);
  }

  void resize(int64_t row, Out* out) const {
    const int64_t channels = dataset.channels;
    const float scale_y = static_cast<float>(dataset.height) / static_cast<float>(transform.height);
    const float scale_x = static_cast<float>(dataset.width) / static_cast<float>(transform.width);
    const Neighbours y = neighbours(row, dataset.height, scale_y);
    const uint8_t* upper = image + y.first * dataset.width * channels;
    const uint8_t* lower = image + y.second * dataset.width * channels;
    for (int64_t column = columns.begin; column < columns.end; ++column, out += step) {
      const Neighbours x = neighbours(column + shift, dataset.width, scale_x);
      for (int64_t c = 0; c < channels; ++c) {
        const auto mix = [&](const uint8_t* line) {
          return (1 - x.share) * values(c, line[x.first * channels + c]) +
                 x.share * values(c, line[x.second * channels + c]);
        };
        out[c] = Values::store((1 - y.share) * mix(upper) + y.share * mix(lower));
      }
    }
  }
};

template <typename Values>
void erase(const Box& box, int64_t image_width, int64_t channels, const Values& values,
           typename Values::Out* out) {
  for (int64_t y = box.top; y < box.top + box.height; ++y)
    for (int64_t x = box.left; x < box.left + box.width; ++x)
      for (int64_t c = 0; c < channels; ++c) out[(y * image_width + x) * channels + c] = values.fill_value(c);
}

template <typename Values>
void write_sample(const Dataset& dataset, int64_t sample, const Transform& transform,
                  const Placement& placement, const Values& values, typename Values::Out* out) {
  const int64_t channels = dataset.channels, width = transform.width;
  auto* const image = out;
  const int64_t shift = placement.left - transform.crop_padding;
  const int64_t step = placement.flip ? -channels : channels;
  const RowWriter<Values> writer{dataset, dataset.image(sample),      transform, values, shift,
                                 step,    inner_columns(width, shift)};
  const bool same_size = dataset.height == transform.height && dataset.width == width;
  for (int64_t y = 0; y < transform.height; ++y, out += width * channels) {
    auto* const start = placement.flip ? out + (width - 1) * channels : out;
    const int64_t row = y + placement.top - transform.crop_padding;
    if (row < 0 || row >= transform.height) {
      writer.fill(start, width);
      continue;
    }
    const auto [begin, end] = writer.columns;
    writer.fill(start, begin);
    if (begin < end) {
      auto* const first = start + begin * step;
      same_size ? writer.copy(row, first) : writer.resize(row, first);
    }
    writer.fill(start + end * step, width - end);
  }
  erase(placement.erased, width, channels, values, image);
}

}  // namespace

void check_transform(const Transform& transform, int64_t channels) {
  TR_CHECK(transform.height > 0 && transform.width > 0, ValueError,
           cat("transform: size ", transform.height, "x", transform.width, "; both must be at least 1"));
  for (const auto* values : {&transform.mean, &transform.std})
    TR_CHECK(values->size() <= 1 || values->size() == static_cast<size_t>(channels), ValueError,
             cat("transform: ", values == &transform.mean ? "mean" : "std", " has ", values->size(),
                 " values for ", channels, " channels; give one per channel, or one for all"));
  for (const float mean : transform.mean)
    TR_CHECK(std::isfinite(mean), ValueError, cat("transform: mean ", mean, " is not finite"));
  for (const float deviation : transform.std)
    TR_CHECK(std::isfinite(deviation) && deviation > 0, ValueError,
             cat("transform: std ", deviation, "; it must be above 0"));
  TR_CHECK(transform.crop_padding >= 0 && transform.crop_padding < std::numeric_limits<int32_t>::max(),
           ValueError,
           cat("transform: crop padding ", transform.crop_padding, "; it must be at least 0 and below 2^31"));
  const Erasing& erasing = transform.erasing;
  TR_CHECK(erasing.probability >= 0 && erasing.probability <= 1, ValueError,
           cat("transform: erasing probability ", erasing.probability, "; it must be from 0 to 1"));
  TR_CHECK(erasing.least_area >= 0 && erasing.least_area <= erasing.most_area && erasing.most_area <= 1,
           ValueError,
           cat("transform: erasing area from ", erasing.least_area, " to ", erasing.most_area,
               "; both must lie in 0 to 1, the smaller first"));
  TR_CHECK(erasing.least_ratio > 0 && erasing.least_ratio <= erasing.most_ratio &&
               std::isfinite(erasing.most_ratio),
           ValueError,
           cat("transform: erasing ratio from ", erasing.least_ratio, " to ", erasing.most_ratio,
               "; both must be above 0 and finite, the smaller first"));
  TR_CHECK(std::isfinite(erasing.value), ValueError,
           cat("transform: erasing value ", erasing.value, " is not finite"));
  check_mix(transform.mix);
}

void fill_lookup_table(const Transform& transform, int64_t channels, std::span<float> table) {
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = channel_value(transform.mean, c, 0.0f);
    const float deviation = channel_value(transform.std, c, 1.0f);
    for (int64_t pixel = 0; pixel < PIXEL_VALUES; ++pixel)
      table[static_cast<size_t>(c * PIXEL_VALUES + pixel)] =
          (static_cast<float>(pixel) / 255.0f - mean) / deviation;
  }
}

Placement draw_placement(const Transform& transform, uint64_t seed, int64_t epoch, int64_t sample) {
  const Philox random(seed);
  const auto stream = static_cast<uint32_t>(epoch);
  const auto index = static_cast<uint64_t>(sample);
  Placement placement{transform.crop_padding, transform.crop_padding, false};
  if (transform.crop_padding > 0) {
    const auto corners = static_cast<uint32_t>(2 * transform.crop_padding + 1);
    const Philox::Block bits = random.at(RandomPurpose::CROP, stream, index);
    placement.top = Philox::below(bits[0], corners);
    placement.left = Philox::below(bits[1], corners);
  }
  if (transform.horizontal_flip)
    placement.flip = Philox::below(random.at(RandomPurpose::FLIP, stream, index)[0], 2) == 1;
  if (transform.erasing.probability > 0) placement.erased = draw_erased(transform, random, stream, index);
  return placement;
}

void transform_sample(const Dataset& dataset, int64_t sample, const Transform& transform,
                      const Placement& placement, std::span<const float> table, float* out) {
  const Normalized values{table.data(), static_cast<float>(transform.erasing.value)};
  write_sample(dataset, sample, transform, placement, values, out);
}

void place_sample(const Dataset& dataset, int64_t sample, const Transform& transform,
                  const Placement& placement, uint8_t* out) {
  write_sample(dataset, sample, transform, placement, Raw{transform}, out);
}

}  // namespace tr
