#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <numeric>

#include "data/dataset.h"
#include "support/expect_error.h"
#include "support/fashion_mnist.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

using test::expect_error;
using test::TempFolder;
using test::write_file;
namespace fs = std::filesystem;

std::string word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/// `count` images of 2 × 3 with the bytes 0, 1, 2, ….
std::string image_file(uint32_t count, uint32_t magic = 0x803) {
  std::string bytes(count * 6, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return word(magic) + word(count) + word(2) + word(3) + bytes;
}

/// The labels 0, 1, 2, ….
std::string label_file(uint32_t count, uint32_t magic = 0x801) {
  std::string bytes(count, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return word(magic) + word(count) + bytes;
}

std::string gzip(const std::string& data) {
  constexpr int GZIP = 16, MEMORY_LEVEL = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP + MAX_WBITS, MEMORY_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(ErrorKind::IoError, "deflateInit2");
  std::string out(deflateBound(&stream, data.size()), '\0');
  std::string in = data;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw Error(ErrorKind::IoError, "deflate");
  return out;
}

class Idx : public ::testing::Test {
 protected:
  Dataset read(const std::string& images, const std::string& labels, int64_t classes = 4) {
    return read_idx(write_file(folder_ / "images", images), write_file(folder_ / "labels", labels), classes);
  }
  void refuse_images(const std::string& images, std::vector<std::string> parts) {
    parts.push_back((folder_ / "images").string());
    expect_error(ErrorKind::DataError, parts, [&] { read(images, label_file(4)); });
  }
  void refuse_labels(const std::string& labels, std::vector<std::string> parts, int64_t classes = 4) {
    parts.push_back((folder_ / "labels").string());
    expect_error(ErrorKind::DataError, parts, [&] { read(image_file(4), labels, classes); });
  }

  TempFolder folder_;
};

void expect_four_images(const Dataset& dataset) {
  EXPECT_EQ(dataset.count, 4);
  EXPECT_EQ(dataset.height, 2);
  EXPECT_EQ(dataset.width, 3);
  EXPECT_EQ(dataset.channels, 1);
  EXPECT_EQ(dataset.classes, 4);
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{0, 1, 2, 3}));
  std::vector<uint8_t> bytes(24);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(dataset.images, bytes);
}

TEST_F(Idx, ReadsPlainFiles) { expect_four_images(read(image_file(4), label_file(4))); }

TEST_F(Idx, ReadsGzipWhateverTheName) { expect_four_images(read(gzip(image_file(4)), gzip(label_file(4)))); }

TEST_F(Idx, ReadsPlainFilesNamedGz) {
  expect_four_images(
      read_idx(write_file(folder_ / "i.gz", image_file(4)), write_file(folder_ / "l.gz", label_file(4)), 4));
}

TEST_F(Idx, ReadsSeveralGzipMembers) {
  const std::string images = image_file(4);
  expect_four_images(read(gzip(images.substr(0, 10)) + gzip(images.substr(10)), label_file(4)));
}

TEST_F(Idx, ReadsPathsWithSpacesAndUmlauts) {
  const fs::path folder = folder_ / "mit Leerraum und Ümläut";
  fs::create_directory(folder);
  expect_four_images(
      read_idx(write_file(folder / "i", image_file(4)), write_file(folder / "l", label_file(4)), 4));
}

TEST_F(Idx, RefusesHtmlSavedAsGz) {
  const fs::path images = write_file(folder_ / "images.gz", "<!DOCTYPE html><html>404 Not Found</html>");
  const fs::path labels = write_file(folder_ / "labels.gz", label_file(4));
  expect_error(ErrorKind::DataError, {images.string(), "0x3c21444f", "0x00000803", "web page"},
               [&] { read_idx(images, labels, 4); });
}

TEST_F(Idx, RefusesTruncatedGzip) {
  const std::string images = gzip(image_file(4));
  // Cut in the gzip header, in the data, in the checksum.
  for (const size_t bytes : {size_t{5}, images.size() / 2, images.size() - 12, images.size() - 1})
    refuse_images(images.substr(0, bytes), {"gzip stream is truncated"});
}

TEST_F(Idx, RefusesDamagedGzip) {
  std::string images = gzip(image_file(4));
  images[images.size() - 6] = static_cast<char>(images[images.size() - 6] ^ 1);
  refuse_images(images, {"gzip stream is damaged", "incorrect data check"});
  refuse_images(gzip(image_file(4)) + "trailing", {"not gzip follow"});
}

TEST_F(Idx, RefusesWrongMagic) {
  refuse_images(image_file(4, 0x804), {"0x00000804", "0x00000803", "not an IDX file of unsigned bytes"});
  refuse_images(label_file(4), {"0x00000801", "0x00000803", "file of labels"});
  refuse_labels(image_file(4), {"0x00000803", "0x00000801", "file of images"});
}

TEST_F(Idx, RefusesCutHeaders) {
  refuse_images("", {"ends inside its header", "0 bytes, expected 16"});
  refuse_images(image_file(4).substr(0, 3), {"3 bytes, expected 16"});
  refuse_images(image_file(4).substr(0, 13), {"13 bytes, expected 16"});
  refuse_labels(label_file(4).substr(0, 7), {"7 bytes, expected 8"});
}

TEST_F(Idx, RefusesLengthsThatDisagreeWithTheHeader) {
  for (const bool packed : {false, true}) {
    const auto pack = [&](const std::string& data) { return packed ? gzip(data) : data; };
    refuse_images(pack(image_file(4).substr(0, 39)), {"too short", "23 bytes", "24"});
    refuse_images(pack(image_file(4) + "x"), {"too long", "24"});
    refuse_labels(pack(label_file(4).substr(0, 10)), {"too short", "2 bytes", "4"});
    refuse_labels(pack(label_file(4) + "x"), {"too long", "4"});
  }
}

TEST_F(Idx, RefusesHeadersThatPromiseTheWorld) {
  constexpr uint32_t MOST = 0xffffffff;
  refuse_images(word(0x803) + word(4) + word(MOST) + word(MOST), {"more than any file holds"});
  refuse_images(word(0x803) + word(4) + word(MOST) + word(1000) + "data", {"too short", "4 bytes"});
}

TEST_F(Idx, RefusesCountsThatDisagree) {
  expect_error(ErrorKind::DataError, {"images has 3 images", "labels has 4 labels"},
               [&] { read(image_file(3), label_file(4)); });
}

TEST_F(Idx, RefusesEmptySetsAndZeroDims) {
  refuse_images(image_file(0), {"0 images"});
  refuse_labels(label_file(0), {"0 labels"});
  refuse_images(word(0x803) + word(4) + word(0) + word(3), {"0 rows"});
  refuse_images(word(0x803) + word(4) + word(2) + word(0), {"0 columns"});
}

TEST_F(Idx, RefusesLabelsOutOfRange) {
  refuse_labels(label_file(4), {"label 3 at index 3", "0 to 2"}, 3);
  expect_error(ErrorKind::ValueError, {"0 classes"}, [&] { read(image_file(4), label_file(4), 0); });
}

TEST_F(Idx, RefusesMissingFilesAndFolders) {
  const fs::path images = write_file(folder_ / "images", image_file(4));
  expect_error(ErrorKind::IoError, {"absent", "No such file"},
               [&] { read_idx(images, folder_ / "absent", 4); });
  expect_error(ErrorKind::IoError, {"absent", "No such file"},
               [&] { read_idx_image_header(folder_ / "absent"); });
  expect_error(ErrorKind::IoError, {folder_.path().string(), "is a directory"},
               [&] { read_idx(images, folder_.path(), 4); });
}

TEST_F(Idx, HeaderIsReadAlone) {
  const fs::path images = write_file(folder_ / "images", image_file(4).substr(0, 16));
  const IdxHeader header = read_idx_image_header(images);
  EXPECT_EQ(header.count, 4);
  EXPECT_EQ(header.height, 2);
  EXPECT_EQ(header.width, 3);
}

TEST_F(Idx, FindsPlainBeforePacked) {
  expect_error(ErrorKind::IoError, {(folder_ / "train").string() + " nor ", (folder_ / "train.gz").string()},
               [&] { find_idx(folder_.path(), "train"); });
  write_file(folder_ / "train.gz", "");
  EXPECT_EQ(find_idx(folder_.path(), "train"), folder_ / "train.gz");
  write_file(folder_ / "train", "");
  EXPECT_EQ(find_idx(folder_.path(), "train"), folder_ / "train");
}

TEST(FashionMnist, Loads) {
  const fs::path folder = test::FASHION_MNIST_FOLDER;
  const Dataset train =
      read_idx(find_idx(folder, "train-images-idx3-ubyte"), find_idx(folder, "train-labels-idx1-ubyte"), 10);
  EXPECT_EQ(train.count, 60000);
  EXPECT_EQ(train.height, 28);
  EXPECT_EQ(train.width, 28);
  EXPECT_EQ(train.images.size(), 60000u * 784u);
  for (int32_t label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(train.labels.begin(), train.labels.end(), label), 6000);
  // The mean that everybody normalizes Fashion-MNIST with.
  EXPECT_NEAR(std::accumulate(train.images.begin(), train.images.end(), 0.0) / 255.0 / (60000.0 * 784.0),
              0.2860, 1e-4);

  const Dataset validation =
      read_idx(find_idx(folder, "t10k-images-idx3-ubyte"), find_idx(folder, "t10k-labels-idx1-ubyte"), 10);
  EXPECT_EQ(validation.count, 10000);
  EXPECT_EQ(validation.labels.size(), 10000u);
}

}  // namespace
}  // namespace tr
