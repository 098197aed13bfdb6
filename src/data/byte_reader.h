/// Reads a file from front to back, unpacking gzip on the way where the first two bytes say so.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

namespace tr {

class ByteReader {
 public:
  /// IoError when `path` is missing, a directory or unreadable.
  explicit ByteReader(const std::filesystem::path& path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Bytes read, fewer than asked for only at the end of the data. DataError for a damaged or truncated gzip
  /// stream or for bytes after it, IoError when the system cannot read.
  size_t read(std::span<uint8_t> out);

  bool is_gzip() const { return gzip_; }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  size_t read_file(std::span<uint8_t> out);
  /// Makes input_ non-empty; false at the end of the file.
  bool refill();
  size_t inflate_into(std::span<uint8_t> out);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::array<uint8_t, 1 << 16> buffer_;
  std::span<uint8_t> input_;  ///< the part of buffer_ not yet consumed
  bool gzip_ = false;
  bool member_open_ = false;  ///< inside a gzip member; a file may hold several, one after the other
  z_stream stream_{};
};

}  // namespace tr
