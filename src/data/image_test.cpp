#include "renaissance/data/image.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/reference.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

using nlohmann::json;
using test::expect_error;
using test::TempFolder;
using test::write_file;

std::filesystem::path recorded_file(const std::string& name) {
  return std::filesystem::path(TR_SOURCE_DIR) / "tests/reference/images" / name;
}

/// As record.py makes them.
Image filled(int64_t height, int64_t width, int64_t channels, uint32_t salt) {
  Image image{height, width, channels, {}};
  std::vector<float> values(static_cast<size_t>(height * width * channels));
  test::fill(values, salt);
  for (const float value : values)
    image.pixels.push_back(static_cast<uint8_t>((static_cast<double>(value) + 0.5) * 256.0));
  return image;
}

TEST(Image, EveryKindOfFileIsAsPillowReadsIt) {
  const json reference = test::load_reference("images/images.json");
  for (const json& file : reference["files"]) {
    const auto name = file["file"].get<std::string>();
    for (const auto& [channels, key] : {std::pair<int64_t, const char*>{3, "rgb"}, {1, "gray"}}) {
      const Image image = read_image(recorded_file(name), channels);
      EXPECT_EQ(image.height, reference["height"].get<int64_t>()) << name;
      EXPECT_EQ(image.width, reference["width"].get<int64_t>()) << name;
      EXPECT_EQ(image.channels, channels) << name;
      const auto want = file[key].get<std::vector<int>>();
      ASSERT_EQ(image.pixels.size(), want.size()) << name;
      // Decoders of JPEG may round differently.
      const int tolerance = name.ends_with(".jpg") ? 2 : 0;
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(int{image.pixels[i]}, want[i], tolerance) << name << ' ' << key << ' ' << i;
    }
  }
}

TEST(Image, FitsAsTorchvisionResizesAndCrops) {
  const json reference = test::load_reference("images/images.json");  // which the range must outlive
  for (const json& item : reference.at("resizes")) {
    const auto height = item["height"].get<int64_t>();
    const Image image = filled(height, item["width"].get<int64_t>(), item["channels"].get<int64_t>(),
                               static_cast<uint32_t>(height));
    const Image fitted = fit_image(image, item["to"][0].get<int64_t>(), item["to"][1].get<int64_t>(),
                                   item["shorter"].get<int64_t>());
    const std::vector<float> values(fitted.pixels.begin(), fitted.pixels.end());
    constexpr double ONE_LEVEL = 1.1 / 255.0;
    EXPECT_TRUE(test::matches(values, test::recorded(item["out"]), ONE_LEVEL)) << item.dump();
  }
}

TEST(Image, AnImageOfTheRightSizeStaysAsItIs) {
  const Image image = filled(9, 6, 3, 1);
  EXPECT_EQ(fit_image(image, 9, 6).pixels, image.pixels);
  EXPECT_EQ(fit_image(image, 9, 6, 6).pixels, image.pixels);
}

TEST(Image, DamagedFilesAreNamedWithTheReason) {
  const TempFolder folder;
  for (const std::string name : {"rgb.jpg", "progressive.jpg", "cmyk.jpg", "rgb.png", "interlaced.png"}) {
    const std::string whole = test::read_file(recorded_file(name));
    for (const double share : {0.1, 0.5, 0.9}) {
      const auto cut = static_cast<size_t>(share * static_cast<double>(whole.size()));
      const auto file = write_file(folder / ("cut_" + name), whole.substr(0, cut));
      expect_error(ErrorKind::DataError, {file.string(), "damaged"}, [&] { read_image(file, 3); });
    }
  }
  std::string garbage = test::read_file(recorded_file("rgb.png"));
  garbage[garbage.size() / 2] = static_cast<char>(garbage[garbage.size() / 2] ^ 0x55);
  const auto png = write_file(folder / "garbage.png", garbage);
  expect_error(ErrorKind::DataError, {png.string(), "damaged PNG image: "}, [&] { read_image(png, 3); });
  // A header that says more pixels than anyone means.
  std::string large = test::read_file(recorded_file("rgb.jpg"));
  const size_t frame = large.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  large.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  const auto jpeg = write_file(folder / "large.jpg", large);
  expect_error(ErrorKind::DataError, {jpeg.string(), "it has 65500 x 65500 pixels"},
               [&] { read_image(jpeg, 3); });
}

TEST(Image, WhatIsNoImageIsRefused) {
  const TempFolder folder;
  expect_error(ErrorKind::DataError, {"empty.jpg", "is empty"},
               [&] { read_image(write_file(folder / "empty.jpg", ""), 3); });
  expect_error(ErrorKind::DataError, {"page.png", "neither a JPEG nor a PNG"},
               [&] { read_image(write_file(folder / "page.png", "<html>"), 3); });
  expect_error(ErrorKind::IoError, {"none.png", "No such file"}, [&] { read_image(folder / "none.png", 3); });
  expect_error(ErrorKind::IoError, {"is a folder"}, [&] { read_image(folder.path(), 3); });
  expect_error(ErrorKind::ValueError, {"give 1 or 3 channels, the network takes 4"},
               [&] { read_image(recorded_file("rgba.png"), 4); });
}

TEST(Image, SizesThatDoNotFitAreRefused) {
  const Image image = filled(9, 6, 3, 1);
  expect_error(ErrorKind::ValueError, {"sizes must be at least 1"}, [&] { fit_image(image, 0, 6); });
  expect_error(ErrorKind::ValueError, {"use at least 6"}, [&] { fit_image(image, 9, 6, 5); });
  const Image line{1, 2'000'000, 1, std::vector<uint8_t>(2'000'000)};
  expect_error(ErrorKind::DataError, {"too narrow"}, [&] { fit_image(line, 224, 224); });
}

TEST(Image, AnIdxFileHoldsMany) {
  const TempFolder folder;
  const std::string header("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03", 16);
  const auto file = write_file(folder / "images", header + "abcdef");
  const std::vector<Image> images = read_images(file, 1);
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[1].pixels, (std::vector<uint8_t>{'d', 'e', 'f'}));
  EXPECT_EQ(read_images(file, 3)[0].pixels,
            (std::vector<uint8_t>{'a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c'}));
  EXPECT_EQ(read_images(recorded_file("gray.png"), 1).size(), 1u);
  const auto cut = write_file(folder / "cut", header + "abc");
  expect_error(ErrorKind::DataError, {cut.string(), "too short"}, [&] { read_images(cut, 1); });
}

}  // namespace
}  // namespace tr
