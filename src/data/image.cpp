#include "renaissance/data/image.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "data/dataset.h"
#include "data/image_decode.h"
#include "renaissance/core/error.h"

namespace tr {
namespace {

std::vector<uint8_t> read_bytes(const std::filesystem::path& file) {
  std::error_code ignored;
  TR_CHECK(!std::filesystem::is_directory(file, ignored), IoError,
           cat(file.string(), ": is a folder; expected an image file"));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  const auto reason = [] { return errno != 0 ? std::generic_category().message(errno) : "read failed"; };
  TR_CHECK(in.is_open(), IoError, cat(file.string(), ": cannot open: ", reason()));
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  TR_CHECK(!in.bad(), IoError, cat(file.string(), ": cannot read: ", reason()));
  return bytes;
}

/// a * b / 255, rounded as Pillow's MULDIV255.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

void cmyk_to_rgb(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    const int light = 255 - pixels[4 * i + 3];
    for (size_t c = 0; c < 3; ++c)
      pixels[3 * i + c] = static_cast<uint8_t>(light - multiply_255(pixels[4 * i + c], light));
  }
  pixels.resize(3 * count);
}

/// ITU-R 601-2 luma with Pillow's weights of 16 bits.
void rgb_to_gray(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 3;
  for (size_t i = 0; i < count; ++i)
    pixels[i] = static_cast<uint8_t>(
        (pixels[3 * i] * 19595 + pixels[3 * i + 1] * 38470 + pixels[3 * i + 2] * 7471 + 0x8000) >> 16);
  pixels.resize(count);
}

void gray_to_rgb(std::vector<uint8_t>& pixels) {
  std::vector<uint8_t> rgb(3 * pixels.size());
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = pixels[i / 3];
  pixels = std::move(rgb);
}

void check_channels(const std::filesystem::path& file, int64_t channels) {
  TR_CHECK(channels == 1 || channels == 3, ValueError,
           cat(file.string(), ": image files give 1 or 3 channels, the network takes ", channels));
}

/// As IDX files of unsigned bytes begin, and gzip, which only they may be packed with.
bool is_idx_or_gzip(const std::vector<uint8_t>& bytes) {
  if (bytes.size() < 4) return false;
  return (bytes[0] == 0x1f && bytes[1] == 0x8b) || (bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8);
}

Image decode(const std::filesystem::path& file, const std::vector<uint8_t>& bytes, int64_t channels) {
  DecodedImage decoded;
  TR_CHECK(!bytes.empty(), DataError, cat(file.string(), ": is empty; expected a JPEG or PNG image"));
  TR_CHECK(is_jpeg(bytes) || is_png(bytes), DataError,
           cat(file.string(), ": is neither a JPEG nor a PNG image; convert it"));
  const bool jpeg = is_jpeg(bytes);
  const std::string mistake = jpeg ? decode_jpeg(bytes, decoded) : decode_png(bytes, decoded);
  TR_CHECK(mistake.empty(), DataError,
           cat(file.string(), ": damaged ", jpeg ? "JPEG" : "PNG", " image: ", mistake));
  if (decoded.layout == PixelLayout::CMYK) cmyk_to_rgb(decoded.pixels);
  const bool is_gray = decoded.layout == PixelLayout::GRAY;
  if (channels == 1 && !is_gray) rgb_to_gray(decoded.pixels);
  if (channels == 3 && is_gray) gray_to_rgb(decoded.pixels);
  return {decoded.height, decoded.width, channels, std::move(decoded.pixels)};
}

}  // namespace

std::string size_mistake(int64_t height, int64_t width) {
  if (height > 0 && width > 0 && height <= MOST_PIXELS / width) return "";
  return cat("it has ", width, " x ", height, " pixels, expected 1 to ", MOST_PIXELS);
}

Image read_image(const std::filesystem::path& file, int64_t channels) {
  check_channels(file, channels);
  return decode(file, read_bytes(file), channels);
}

std::vector<Image> read_images(const std::filesystem::path& file, int64_t channels) {
  check_channels(file, channels);
  const std::vector<uint8_t> bytes = read_bytes(file);
  if (!is_idx_or_gzip(bytes)) return {decode(file, bytes, channels)};
  const Dataset dataset = read_idx_images(file);
  std::vector<Image> images;
  for (int64_t i = 0; i < dataset.count; ++i) {
    const uint8_t* first = dataset.images.data() + i * dataset.image_bytes();
    Image image{dataset.height, dataset.width, channels, {first, first + dataset.image_bytes()}};
    if (channels == 3) gray_to_rgb(image.pixels);
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace tr
