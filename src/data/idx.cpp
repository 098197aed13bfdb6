/// IDX, the format of MNIST and its family: a big-endian magic number (0, 0, 8 for unsigned bytes, the number
/// of dims), the dims, the bytes. Source: http://yann.lecun.com/exdb/mnist/
#include <algorithm>
#include <array>
#include <iomanip>
#include <limits>
#include <span>

#include "data/byte_reader.h"
#include "data/dataset.h"

namespace tr {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t IMAGE_MAGIC = 0x00000803, LABEL_MAGIC = 0x00000801;
constexpr size_t WORD = 4;

uint32_t big_endian(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

std::string hex(uint32_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << std::setw(8) << std::setfill('0') << value;
  return out.str();
}

std::string magic_advice(std::span<const uint8_t> magic) {
  if (big_endian(magic) == IMAGE_MAGIC) return "; this is a file of images";
  if (big_endian(magic) == LABEL_MAGIC) return "; this is a file of labels";
  if (magic[0] == '<') return "; it looks like a web page, so the download went wrong: get the file again";
  return "; it is not an IDX file of unsigned bytes";
}

/// The dims after the magic number, none of them zero.
template <size_t DIMS>
std::array<int64_t, DIMS> read_header(ByteReader& reader, const fs::path& path, uint32_t magic,
                                      const std::array<const char*, DIMS>& names) {
  std::array<uint8_t, WORD*(1 + DIMS)> bytes{};
  const std::span<const uint8_t> header(bytes);
  size_t got = reader.read(std::span(bytes).first(WORD));
  if (got == WORD) {
    TR_CHECK(big_endian(header) == magic, DataError,
             cat(path.string(), ": magic number ", hex(big_endian(header)), ", expected ", hex(magic),
                 magic_advice(header)));
    got += reader.read(std::span(bytes).subspan(WORD));
  }
  TR_CHECK(got == bytes.size(), DataError,
           cat(path.string(), ": ends inside its header: ", got, " bytes, expected ", bytes.size()));
  std::array<int64_t, DIMS> dims{};
  for (size_t i = 0; i < DIMS; ++i) {
    dims[i] = big_endian(header.subspan(WORD * (i + 1)));
    TR_CHECK(dims[i] > 0, DataError,
             cat(path.string(), ": the header says 0 ", names[i], "; at least 1 is needed"));
  }
  return dims;
}

IdxHeader read_image_header(ByteReader& reader, const fs::path& path) {
  const auto [count, height, width] =
      read_header<3>(reader, path, IMAGE_MAGIC, {"images", "rows", "columns"});
  return {count, height, width};
}

/// The `expected` bytes after the header, and not one more. Grows as data arrives, so that a damaged header
/// cannot ask for memory that the file does not fill.
std::vector<uint8_t> read_exactly(ByteReader& reader, const fs::path& path, int64_t expected) {
  constexpr size_t FIRST_STEP = size_t{1} << 24;
  std::vector<uint8_t> data;
  size_t size = 0;
  while (size < static_cast<size_t>(expected)) {
    const size_t next = std::min(static_cast<size_t>(expected), std::max(FIRST_STEP, 2 * size));
    data.reserve(next);
    data.resize(next);
    const size_t got = reader.read(std::span(data).subspan(size));
    size += got;
    TR_CHECK(size == next, DataError,
             cat(path.string(), ": too short: ", size, " bytes follow the header, which says ", expected));
  }
  std::array<uint8_t, 1> extra{};
  TR_CHECK(reader.read(extra) == 0, DataError,
           cat(path.string(), ": too long: more bytes follow the header than the ", expected, " it says"));
  return data;
}

int64_t image_bytes_in(const IdxHeader& header, const fs::path& path) {
  constexpr int64_t MOST = std::numeric_limits<int64_t>::max();
  TR_CHECK(header.height <= MOST / header.width && header.count <= MOST / (header.height * header.width),
           DataError,
           cat(path.string(), ": the header says ", header.count, " images of ", header.height, "x",
               header.width, ", more than any file holds"));
  return header.count * header.height * header.width;
}

}  // namespace

IdxHeader read_idx_image_header(const fs::path& images) {
  ByteReader reader(images);
  return read_image_header(reader, images);
}

Dataset read_idx_images(const fs::path& images) {
  ByteReader reader(images);
  const IdxHeader header = read_image_header(reader, images);
  Dataset dataset{header.count, header.height, header.width, 1, 0, {}, {}};
  dataset.images = read_exactly(reader, images, image_bytes_in(header, images));
  return dataset;
}

Dataset read_idx(const fs::path& images, const fs::path& labels, int64_t classes) {
  TR_CHECK(classes > 0, ValueError, cat("idx: ", classes, " classes; at least 1 is needed"));
  ByteReader image_reader(images), label_reader(labels);
  const IdxHeader header = read_image_header(image_reader, images);
  const int64_t label_count = read_header<1>(label_reader, labels, LABEL_MAGIC, {"labels"})[0];
  TR_CHECK(header.count == label_count, DataError,
           cat(images.string(), " has ", header.count, " images but ", labels.string(), " has ", label_count,
               " labels; the two must belong together"));

  Dataset dataset{header.count, header.height, header.width, 1, classes, {}, {}};
  const std::vector<uint8_t> classes_found = read_exactly(label_reader, labels, label_count);
  for (size_t i = 0; i < classes_found.size(); ++i)
    TR_CHECK(classes_found[i] < classes, DataError,
             cat(labels.string(), ": label ", int{classes_found[i]}, " at index ", i, " is outside 0 to ",
                 classes - 1, "; fix the file or the number of classes"));
  dataset.labels.assign(classes_found.begin(), classes_found.end());
  dataset.images = read_exactly(image_reader, images, image_bytes_in(header, images));
  return dataset;
}

fs::path find_idx(const fs::path& folder, const std::string& stem) {
  const fs::path plain = folder / stem, packed = folder / (stem + ".gz");
  for (const fs::path& path : {plain, packed}) {
    std::error_code ignored;
    if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) return path;
  }
  throw Error(ErrorKind::IoError, cat("neither ", plain.string(), " nor ", packed.string(), " exists"));
}

}  // namespace tr
