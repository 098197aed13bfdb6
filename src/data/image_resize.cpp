/// Bilinear resizing as Pillow does it (src/libImaging/Resample.c): a triangle filter that widens when an
/// image shrinks, first along rows, then along columns, in integers with 22 bits of fraction.
#include <algorithm>
#include <cmath>

#include "data/image_decode.h"
#include "renaissance/core/error.h"
#include "renaissance/data/image.h"

namespace tr {
namespace {

constexpr int FRACTION_BITS = 32 - 8 - 2;

/// The input elements that one output element is made of, and their weights.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Window> windows(int64_t in_size, int64_t out_size) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double support = std::max(scale, 1.0), inverse = 1.0 / support;
  std::vector<Window> list(static_cast<size_t>(out_size));
  for (int64_t i = 0; i < out_size; ++i) {
    Window& window = list[static_cast<size_t>(i)];
    const double center = (static_cast<double>(i) + 0.5) * scale;
    window.first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), in_size);
    std::vector<double> weights;
    double sum = 0.0;
    for (int64_t x = window.first; x < end; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * inverse);
      weights.push_back(std::max(1.0 - distance, 0.0));
      sum += weights.back();
    }
    for (const double weight : weights)
      window.weights.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << FRACTION_BITS)));
  }
  return list;
}

/// Of the elements of a line that begins at `in`, `stride` bytes apart.
uint8_t weighted_sum(const uint8_t* in, int64_t stride, const Window& window) {
  int32_t sum = 1 << (FRACTION_BITS - 1);
  in += window.first * stride;
  for (const int32_t weight : window.weights) {
    sum += *in * weight;
    in += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> FRACTION_BITS, 0, 255));
}

Image resize_width(const Image& image, int64_t width) {
  if (width == image.width) return image;
  const std::vector<Window> list = windows(image.width, width);
  const int64_t channels = image.channels;
  Image out{image.height, width, channels, {}};
  out.pixels.resize(static_cast<size_t>(out.height * width * channels));
  uint8_t* to = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y)
    for (const Window& window : list)
      for (int64_t c = 0; c < channels; ++c)
        *to++ = weighted_sum(image.pixels.data() + y * image.width * channels + c, channels, window);
  return out;
}

Image resize_height(const Image& image, int64_t height) {
  if (height == image.height) return image;
  const std::vector<Window> list = windows(image.height, height);
  const int64_t row = image.width * image.channels;
  Image out{height, image.width, image.channels, {}};
  out.pixels.resize(static_cast<size_t>(height * row));
  uint8_t* to = out.pixels.data();
  for (const Window& window : list)
    for (int64_t x = 0; x < row; ++x) *to++ = weighted_sum(image.pixels.data() + x, row, window);
  return out;
}

/// Half of `rest`, as Python rounds it: a half goes to the even neighbour.
int64_t half(int64_t rest) {
  const int64_t down = rest / 2;
  return rest % 2 == 1 && down % 2 == 1 ? down + 1 : down;
}

Image crop_center(const Image& image, int64_t height, int64_t width) {
  const int64_t top = half(image.height - height), left = half(image.width - width);
  Image out{height, width, image.channels, {}};
  out.pixels.reserve(static_cast<size_t>(height * width * image.channels));
  for (int64_t y = 0; y < height; ++y) {
    const auto begin = image.pixels.begin() + ((y + top) * image.width + left) * image.channels;
    out.pixels.insert(out.pixels.end(), begin, begin + width * image.channels);
  }
  return out;
}

}  // namespace

Image fit_image(const Image& image, int64_t height, int64_t width, int64_t shorter_side) {
  TR_CHECK(height > 0 && width > 0 && image.height > 0 && image.width > 0, ValueError,
           cat("image: cannot fit ", image.height, "x", image.width, " to ", height, "x", width,
               "; sizes must be at least 1"));
  const int64_t crop_side = std::min(height, width);
  TR_CHECK(shorter_side == 0 || shorter_side >= crop_side, ValueError,
           cat("image: resizing the shorter side to ", shorter_side, " leaves less than the crop of ", height,
               "x", width, "; use at least ", crop_side));
  int64_t cover_height = height, cover_width = width;
  if (shorter_side > 0) {
    cover_height = height * shorter_side / crop_side;
    cover_width = width * shorter_side / crop_side;
  }
  const bool is_wide = image.width * cover_height >= image.height * cover_width;
  const int64_t new_height = is_wide ? cover_height : image.height * cover_width / image.width;
  const int64_t new_width = is_wide ? image.width * cover_height / image.height : cover_width;
  TR_CHECK(new_height <= MOST_PIXELS / new_width && image.height <= MOST_PIXELS / new_width, DataError,
           cat("image: it is ", image.width, " x ", image.height, ", too narrow to be scaled to cover ",
               cover_width, " x ", cover_height, "; cut it first"));
  return crop_center(resize_height(resize_width(image, new_width), new_height), height, width);
}

}  // namespace tr
