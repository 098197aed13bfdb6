/// Decoders of image files. A reason instead of an exception: the libraries leave by longjmp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tr {

enum class PixelLayout : uint8_t { GRAY, RGB, CMYK };

/// As stored: UINT8, 1, 3 or 4 bytes a pixel.
struct DecodedImage {
  PixelLayout layout = PixelLayout::RGB;
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

constexpr int64_t MOST_PIXELS = int64_t{1} << 27;
/// "" when the size is allowed.
std::string size_mistake(int64_t height, int64_t width);

bool is_jpeg(std::span<const uint8_t> bytes);
bool is_png(std::span<const uint8_t> bytes);
/// What is wrong with the file; "" when nothing is and `image` holds it.
std::string decode_jpeg(std::span<const uint8_t> bytes, DecodedImage& image);
std::string decode_png(std::span<const uint8_t> bytes, DecodedImage& image);

}  // namespace tr
