// Inference on a card: logits of given images, in every precision, read from padded rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "renaissance/train/predictor.h"
#include "renaissance/train/trainer.h"
#include "support/cuda_rig.h"
#include "support/op_rig.h"

namespace tr::test {
namespace {

Recipe recipe_on(BackendKind device, Precision precision) {
  Recipe recipe;
  recipe.name = "small";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 7;
  recipe.data.train_samples = 40;
  recipe.data.val_samples = 8;
  recipe.data.channels = 3;
  recipe.data.height = 9;
  recipe.data.width = 11;
  recipe.data.mean = {0.4, 0.5, 0.6};
  recipe.data.std = {0.3};
  recipe.model.layers =
      seq(conv(16, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), gap(), flatten(), fc(7));
  recipe.train.batch_size = 8;
  recipe.train.epochs = 1;
  recipe.device = device;
  recipe.precision = precision;
  return recipe;
}

std::vector<Image> images(size_t count) {
  std::vector<Image> list;
  for (size_t i = 0; i < count; ++i) {
    Image image{9, 11, 3, std::vector<uint8_t>(9 * 11 * 3)};
    for (size_t k = 0; k < image.pixels.size(); ++k)
      image.pixels[k] = static_cast<uint8_t>((fill_value(k, static_cast<uint32_t>(i)) + 0.5f) * 256.0f);
    list.push_back(std::move(image));
  }
  return list;
}

TEST(CudaPredictor, LogitsFollowTheCpus) {
  if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  const Recipe cpu = recipe_on(BackendKind::CPU, Precision::FP32);
  Trainer trainer(cpu);
  Observer silent;
  trainer.run(silent);
  const StateDict weights = trainer.state_dict();
  const std::vector<Image> batch = images(5);
  const std::vector<float> want = Predictor(cpu, weights, 6).logits(batch);
  const float largest =
      *std::max_element(want.begin(), want.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::FP32, 1e-3f}, {Precision::FP16, 1e-2f}, {Precision::BF16, 5e-2f}}) {
    Predictor predictor(recipe_on(BackendKind::CUDA, precision), weights, 6);
    // Twice: nothing of a batch is left for the next.
    for (int time = 0; time < 2; ++time) {
      const std::vector<float> got = predictor.logits(batch);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], tolerance * std::abs(largest)) << precision_name(precision) << ' ' << i;
      predictor.logits(images(6));
    }
  }
}

}  // namespace
}  // namespace tr::test
