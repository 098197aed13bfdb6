#include "data/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "support/expect_error.h"
#include "support/reference.h"

namespace tr {
namespace {

using test::expect_error;

/// One image whose bytes are 1, 2, 3, ….
Dataset one_image(int64_t height, int64_t width, int64_t channels) {
  Dataset dataset{1, height, width, channels, 1, {}, {0}};
  dataset.images.resize(static_cast<size_t>(dataset.image_bytes()));
  std::iota(dataset.images.begin(), dataset.images.end(), uint8_t{1});
  return dataset;
}

std::vector<float> run(const Dataset& dataset, const Transform& transform, const Placement& placement) {
  std::vector<float> table(static_cast<size_t>(dataset.channels) * 256);
  fill_lookup_table(transform, dataset.channels, table);
  std::vector<float> out(static_cast<size_t>(transform.height * transform.width * dataset.channels),
                         std::numeric_limits<float>::quiet_NaN());
  transform_sample(dataset, 0, transform, placement, table, out.data());
  return out;
}

TEST(Transform, NormalizesAsToTensorAndNormalize) {
  Transform transform{1, 1, {0.5f, 0.25f}, {0.1f, 0.3f}};
  std::vector<float> table(512);
  fill_lookup_table(transform, 2, table);
  EXPECT_EQ(table[0], (0.0f - 0.5f) / 0.1f);
  EXPECT_EQ(table[7], (7.0f / 255.0f - 0.5f) / 0.1f);
  EXPECT_EQ(table[256 + 255], (1.0f - 0.25f) / 0.3f);
  transform.mean.clear();
  transform.std = {2.0f};
  fill_lookup_table(transform, 2, table);
  EXPECT_EQ(table[255], 0.5f);
  EXPECT_EQ(table[256 + 255], 0.5f);
}

/// What every output pixel must be, computed one by one: pad, crop, flip.
void expect_crop(const Dataset& dataset, int64_t padding, const Placement& placement) {
  Transform transform{dataset.height, dataset.width, {0.5f}, {0.25f}, padding, true};
  const std::vector<float> out = run(dataset, transform, placement);
  size_t i = 0;
  for (int64_t y = 0; y < dataset.height; ++y)
    for (int64_t x = 0; x < dataset.width; ++x)
      for (int64_t c = 0; c < dataset.channels; ++c, ++i) {
        const int64_t column = placement.flip ? dataset.width - 1 - x : x;
        const int64_t in_y = y + placement.top - padding, in_x = column + placement.left - padding;
        const bool inside = in_y >= 0 && in_y < dataset.height && in_x >= 0 && in_x < dataset.width;
        const int64_t at = (in_y * dataset.width + in_x) * dataset.channels + c;
        const float pixel = inside ? dataset.images[static_cast<size_t>(at)] : 0.0f;
        ASSERT_EQ(out[i], (pixel / 255.0f - 0.5f) / 0.25f)
            << "y " << y << " x " << x << " c " << c << " top " << placement.top << " left " << placement.left
            << " flip " << placement.flip;
      }
}

TEST(Transform, CropsAndFlipsWithZeroPixelsAround) {
  for (const int64_t channels : {1, 2, 3, 4})
    for (const int64_t padding : {0, 1, 2, 6})  // 6 exceeds the image: a crop may miss it altogether
      for (int64_t top = 0; top <= 2 * padding; ++top)
        for (int64_t left = 0; left <= 2 * padding; ++left)
          for (const bool flip : {false, true})
            expect_crop(one_image(4, 5, channels), padding, {top, left, flip});
}

TEST(Transform, ResizesAsTorchInterpolate) {
  const nlohmann::json reference = test::load_reference("interpolate.json");
  Dataset dataset{1,  reference["height"], reference["width"], reference["channels"], 1, reference["pixels"],
                  {0}};
  for (const nlohmann::json& want : reference["cases"]) {
    const Transform transform{want["height"], want["width"], reference["mean"], reference["std"]};
    const std::vector<float> values = want["values"];
    const std::vector<float> out = run(dataset, transform, {});
    ASSERT_EQ(out.size(), values.size());
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], values[i], 2e-6f) << "element " << i << " of " << want;
  }
}

TEST(Transform, CropsAfterResizing) {
  const Dataset dataset = one_image(3, 3, 2);
  Transform transform{6, 6, {}, {}};
  const std::vector<float> whole = run(dataset, transform, {});
  transform.crop_padding = 2;
  for (const bool flip : {false, true}) {
    const std::vector<float> out = run(dataset, transform, {1, 4, flip});
    for (int64_t y = 0; y < 6; ++y)
      for (int64_t x = 0; x < 6; ++x)
        for (int64_t c = 0; c < 2; ++c) {
          const int64_t in_y = y - 1, in_x = (flip ? 5 - x : x) + 2;
          const bool inside = in_y >= 0 && in_x < 6;
          EXPECT_EQ(out[static_cast<size_t>((y * 6 + x) * 2 + c)],
                    inside ? whole[static_cast<size_t>((in_y * 6 + in_x) * 2 + c)] : 0.0f);
        }
  }
}

TEST(Transform, DrawsEveryCornerAndBothSides) {
  const Transform transform{4, 4, {}, {}, 2, true};
  std::set<std::pair<int64_t, int64_t>> corners;
  int flips = 0;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const Placement placement = draw_placement(transform, 9, 3, sample);
    ASSERT_TRUE(placement.top >= 0 && placement.top <= 4 && placement.left >= 0 && placement.left <= 4);
    corners.insert({placement.top, placement.left});
    flips += placement.flip;
  }
  EXPECT_EQ(corners.size(), 25u);
  EXPECT_NEAR(flips, 500, 80);
}

TEST(Transform, WithoutAugmentationTheImageStaysInPlace) {
  const Placement placement = draw_placement({4, 4, {}, {}}, 9, 3, 1);
  EXPECT_EQ(placement.top, 0);
  EXPECT_EQ(placement.left, 0);
  EXPECT_FALSE(placement.flip);
}

/// Every pixel is the image's or, inside the box, the value.
TEST(Transform, ErasesTheBoxOfThePlacement) {
  const Dataset dataset = one_image(5, 7, 3);
  Transform transform{5, 7, {0.5f, 0.4f, 0.3f}, {0.25f}, 1, true};
  for (const bool flip : {false, true}) {
    Placement placement{0, 2, flip};
    const std::vector<float> whole = run(dataset, transform, placement);
    placement.erased = {1, 2, 3, 4};
    for (const double value : {0.0, -1.5}) {
      transform.erasing.value = value;
      const std::vector<float> erased = run(dataset, transform, placement);
      for (size_t i = 0; i < whole.size(); ++i) {
        const size_t y = i / 21, x = i % 21 / 3;
        const bool inside = y >= 1 && y < 4 && x >= 2 && x < 6;
        ASSERT_EQ(erased[i], inside ? static_cast<float>(value) : whole[i]) << i;
      }
    }
  }
}

/// As bytes, the one nearest to the value of each channel; out of their range, the last one.
TEST(Transform, ErasedBytesAreNearestToTheValue) {
  const Dataset dataset = one_image(4, 4, 2);
  for (const double value : {0.0, 0.7, -1.0, 9.0, -9.0}) {
    Transform transform{4, 4, {0.485f, 0.406f}, {0.229f, 0.225f}};
    transform.erasing.value = value;
    Placement placement;
    placement.erased = {1, 1, 2, 2};
    std::vector<uint8_t> bytes(32);
    place_sample(dataset, 0, transform, placement, bytes.data());
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool inside = i / 8 >= 1 && i / 8 < 3 && i % 8 / 2 >= 1 && i % 8 / 2 < 3;
      const size_t c = i % 2;
      const double exact = 255.0 * (value * double{transform.std[c]} + double{transform.mean[c]});
      if (inside)
        EXPECT_NEAR(bytes[i], std::clamp(exact, 0.0, 255.0), 0.5001) << i;
      else
        EXPECT_EQ(bytes[i], dataset.images[i]) << i;
    }
  }
}

/// torchvision's rule: area and ratio within their limits but for rounding, corners everywhere.
TEST(Transform, DrawsBoxesToErase) {
  Transform transform{20, 30, {}, {}};
  transform.erasing.probability = 0.75;
  constexpr int64_t SAMPLES = 4000;
  int erased = 0;
  double area = 0.0;
  std::set<std::pair<int64_t, int64_t>> corners;
  for (int64_t sample = 0; sample < SAMPLES; ++sample) {
    const Box box = draw_placement(transform, 9, 3, sample).erased;
    if (box.height == 0) continue;
    ++erased;
    ASSERT_TRUE(box.height < 20 && box.width < 30 && box.width > 0);
    ASSERT_TRUE(box.top >= 0 && box.top + box.height <= 20 && box.left >= 0 && box.left + box.width <= 30);
    const auto height = static_cast<double>(box.height), width = static_cast<double>(box.width);
    EXPECT_GE((height + 0.5) * (width + 0.5), 0.02 * 600.0);
    EXPECT_LE((height - 0.5) * (width - 0.5), 0.33 * 600.0);
    EXPECT_GE((height + 0.5) / (width - 0.5), 0.3);
    EXPECT_LE((height - 0.5) / (width + 0.5), 3.3);
    area += height * width / 600.0;
    corners.insert({box.top, box.left});
  }
  EXPECT_NEAR(erased, 0.75 * SAMPLES, 150);
  EXPECT_NEAR(area / erased, 0.17,
              0.015);  // the mean of 0.02 … 0.33 but for the largest, which fit less often
  EXPECT_GT(corners.size(), 200u);
}

TEST(Transform, ErasesNothingWhereNoBoxFits) {
  Transform transform{1, 1, {}, {}};
  transform.erasing = {1.0, 1.0, 1.0, 1.0, 1.0};
  for (int64_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(draw_placement(transform, 1, 1, sample).erased.height, 0);
}

TEST(Transform, ErasingMovesNoOtherDraw) {
  Transform plain{8, 8, {}, {}, 2, true}, erasing = plain;
  erasing.erasing.probability = 1.0;
  for (int64_t sample = 0; sample < 50; ++sample) {
    const Placement a = draw_placement(plain, 4, 2, sample), b = draw_placement(erasing, 4, 2, sample);
    EXPECT_TRUE(a.top == b.top && a.left == b.left && a.flip == b.flip);
  }
}

TEST(Transform, RefusesWhatDoesNotFit) {
  const auto refuse = [](const Transform& transform, const std::string& part) {
    expect_error(ErrorKind::ValueError, {"transform", part}, [&] { check_transform(transform, 3); });
  };
  EXPECT_NO_THROW(check_transform({4, 4, {0.5f}, {0.1f, 0.2f, 0.3f}}, 3));
  refuse({0, 4, {}, {}}, "0x4");
  refuse({4, 4, {1.0f, 2.0f}, {}}, "mean has 2 values for 3 channels");
  refuse({4, 4, {}, {1.0f, 2.0f}}, "std has 2 values for 3 channels");
  refuse({4, 4, {}, {0.0f}}, "std 0");
  refuse({4, 4, {std::numeric_limits<float>::quiet_NaN()}, {}}, "mean nan");
  refuse({4, 4, {}, {}, -1}, "crop padding -1");
  refuse({4, 4, {}, {}, 0, false, {1.5}}, "erasing probability 1.5");
  refuse({4, 4, {}, {}, 0, false, {0.5, 0.4, 0.2}}, "erasing area from 0.4 to 0.2");
  refuse({4, 4, {}, {}, 0, false, {0.5, 0.1, 0.2, 0.0, 1.0}}, "erasing ratio from 0 to 1");
  expect_error(ErrorKind::ValueError, {"mix: alpha of mixup is -1"}, [] {
    check_transform({4, 4, {}, {}, 0, false, {}, {-1.0}}, 3);
  });
}

TEST(Transform, RawBytesAreTheSamePixelsBeforeNormalization) {
  const Dataset dataset = one_image(5, 7, 3);
  for (const Transform& transform : {Transform{5, 7, {}, {}, 2, true}, Transform{5, 7, {}, {}, 0, false},
                                     Transform{8, 4, {}, {}, 1, true}}) {
    for (const Placement& placement : {Placement{0, 1, false}, Placement{0, 0, true}}) {
      const std::vector<float> pixels = run(dataset, transform, placement);
      std::vector<uint8_t> bytes(pixels.size(), 0xA5);
      place_sample(dataset, 0, transform, placement, bytes.data());
      for (size_t i = 0; i < pixels.size(); ++i)
        ASSERT_NEAR(bytes[i], 255.0f * pixels[i], 0.5001f) << i;  // resized pixels are rounded
    }
  }
}

}  // namespace
}  // namespace tr
