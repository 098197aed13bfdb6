/// Image files as pixels, as Pillow reads, converts and resizes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace tr {

/// UINT8, height × width × channels, rows from the top.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

/// Reads a JPEG or PNG file, told apart by its first bytes, into 3 channels (RGB) or 1 (gray), as Pillow's
/// convert('RGB') and convert('L') do: alpha, PNG's transparent colour and gamma, and EXIF orientation are
/// left aside; CMYK and YCCK are inverted as Adobe stores them; 16-bit gray values above 255 become 255,
/// other 16-bit samples keep their upper byte. DataError with file and reason for a file that is neither, is
/// damaged or cut short, or has more than 2^27 pixels; IoError when it cannot be read; ValueError for other
/// channels.
Image read_image(const std::filesystem::path& file, int64_t channels);

/// Every image of a file: one of a JPEG or PNG file, all of an IDX file (the images of the MNIST family,
/// plain or .gz). Errors as read_image(), and those of a damaged IDX file.
std::vector<Image> read_images(const std::filesystem::path& file, int64_t channels);

/// Scaled to just cover height × width with its proportions kept, then cropped around its centre:
/// torchvision's Resize and CenterCrop on Pillow images (bilinear with antialiasing, rounded after each axis;
/// versions of Pillow differ in the order of axes, and so by one level here and there). With `shorter_side` >
/// 0 it is scaled to cover that many pixels along the shorter of the two sides, and the other in proportion,
/// before the crop. ValueError for sizes below 1 and a shorter_side that the crop exceeds; DataError for an
/// image so narrow that it would have more than 2^27 pixels.
Image fit_image(const Image& image, int64_t height, int64_t width, int64_t shorter_side = 0);

}  // namespace tr
