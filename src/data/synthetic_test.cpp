#include <gtest/gtest.h>

#include <algorithm>

#include "data/dataset.h"
#include "support/expect_error.h"

namespace tr {
namespace {

TEST(Synthetic, SameSeedSameBytes) {
  const Dataset first = make_synthetic(3, 0, 50, 9, 7, 3, 4);
  const Dataset second = make_synthetic(3, 0, 50, 9, 7, 3, 4);
  EXPECT_EQ(first.images, second.images);
  EXPECT_EQ(first.labels, second.labels);
  EXPECT_NE(first.images, make_synthetic(4, 0, 50, 9, 7, 3, 4).images);
  EXPECT_NE(first.images, make_synthetic(3, 1, 50, 9, 7, 3, 4).images);
}

TEST(Synthetic, ASampleDoesNotDependOnTheCount) {
  const Dataset few = make_synthetic(3, 0, 10, 5, 5, 1, 4);
  const Dataset many = make_synthetic(3, 0, 20, 5, 5, 1, 4);
  EXPECT_TRUE(std::equal(few.images.begin(), few.images.end(), many.images.begin()));
}

TEST(Synthetic, ClassesAreBalanced) {
  const Dataset dataset = make_synthetic(0, 0, 100, 4, 4, 1, 10);
  for (int32_t label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(dataset.labels.begin(), dataset.labels.end(), label), 10);
}

/// Mean image of each class: classes × image_bytes.
std::vector<std::vector<double>> class_means(const Dataset& dataset) {
  const auto bytes = static_cast<size_t>(dataset.image_bytes());
  std::vector<std::vector<double>> means(static_cast<size_t>(dataset.classes), std::vector<double>(bytes));
  std::vector<double> counts(means.size());
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    const auto label = static_cast<size_t>(dataset.labels[i]);
    ++counts[label];
    for (size_t k = 0; k < bytes; ++k) means[label][k] += dataset.images[i * bytes + k];
  }
  for (size_t label = 0; label < means.size(); ++label)
    for (double& value : means[label]) value /= counts[label];
  return means;
}

TEST(Synthetic, ANearestMeanClassifierGeneralizes) {
  const Dataset train = make_synthetic(5, 0, 500, 12, 12, 3, 10);
  const Dataset validation = make_synthetic(5, 1, 200, 12, 12, 3, 10);
  const auto means = class_means(train);
  const auto bytes = static_cast<size_t>(validation.image_bytes());
  int correct = 0;
  for (size_t i = 0; i < validation.labels.size(); ++i) {
    std::vector<double> distances;
    for (const auto& mean : means) {
      double distance = 0;
      for (size_t k = 0; k < bytes; ++k) {
        const double difference = validation.images[i * bytes + k] - mean[k];
        distance += difference * difference;
      }
      distances.push_back(distance);
    }
    correct +=
        std::min_element(distances.begin(), distances.end()) - distances.begin() == validation.labels[i];
  }
  EXPECT_GT(correct, 190);
}

TEST(Synthetic, RefusesImpossibleSizes) {
  test::expect_error(ErrorKind::ShapeError, {"[0,4,4,1]"}, [] { make_synthetic(0, 0, 0, 4, 4, 1, 10); });
  test::expect_error(ErrorKind::ValueError, {"0 classes"}, [] { make_synthetic(0, 0, 4, 4, 4, 1, 0); });
}

}  // namespace
}  // namespace tr
