/// Labelled images in memory, as stored: UINT8, NHWC.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "renaissance/core/error.h"

namespace tr {

struct Dataset {
  int64_t count = 0, height = 0, width = 0, channels = 0;
  int64_t classes = 0;
  /// Of the distinct samples, which repeat until there are `count`: all of them for a file, fewer for large
  /// synthetic sets. distinct × height × width × channels bytes; distinct values in 0 … classes−1.
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;

  int64_t image_bytes() const { return height * width * channels; }
  const uint8_t* image(int64_t sample) const {
    return images.data() + sample % std::ssize(labels) * image_bytes();
  }
  int32_t label(int64_t sample) const { return labels[static_cast<size_t>(sample % std::ssize(labels))]; }
};

/// What the header of an IDX image file says; the file is not read further.
struct IdxHeader {
  int64_t count = 0, height = 0, width = 0;
};
IdxHeader read_idx_image_header(const std::filesystem::path& images);
/// The images of an IDX file alone: no labels, no classes. Errors as read_idx().
Dataset read_idx_images(const std::filesystem::path& images);

/// Reads an IDX pair (magic 0x00000803 and 0x00000801, big-endian), gzip-compressed or not (decided by the
/// first two bytes, not by the name). DataError with file, expected and found for: wrong magic, a length
/// that disagrees with the header (short or long), counts that disagree, a damaged or truncated gzip stream,
/// a zero dim, an empty set, a label outside 0…classes−1 (with its index). IoError when a file is missing
/// or unreadable.
Dataset read_idx(const std::filesystem::path& images, const std::filesystem::path& labels, int64_t classes);

/// `path/<stem>` or `path/<stem>.gz`, whichever exists; IoError naming both otherwise.
std::filesystem::path find_idx(const std::filesystem::path& folder, const std::string& stem);

/// Learnable synthetic images: each class has a fixed pattern plus noise, keyed by (seed, sample).
/// `split` keeps training and validation samples apart while the class patterns stay the same. At most
/// 256 MiB of distinct images are made; they repeat beyond that.
Dataset make_synthetic(uint64_t seed, uint32_t split, int64_t count, int64_t height, int64_t width,
                       int64_t channels, int64_t classes);

}  // namespace tr
