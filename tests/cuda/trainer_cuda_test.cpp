// The trainer on a card: batches are loaded ahead, the last of an epoch is smaller, validation has a last one
// too.
#include <gtest/gtest.h>

#include "renaissance/models.h"
#include "renaissance/train/trainer.h"
#include "support/cuda_rig.h"

namespace tr::test {
namespace {

/// 330 samples in batches of 64, 150 in batches of 40.
Recipe small_recipe(BackendKind device) {
  Recipe recipe;
  recipe.name = "small";
  recipe.model.layers =
      seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), flatten(), fc(10));
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.height = recipe.data.width = 12;
  recipe.data.channels = 1;
  recipe.data.classes = 10;
  recipe.data.train_samples = 330;
  recipe.data.val_samples = 150;
  recipe.data.mean = {0.4};
  recipe.data.std = {0.3};
  recipe.augment.crop_padding = 1;
  recipe.augment.horizontal_flip = true;
  recipe.train.batch_size = 64;
  recipe.train.val_batch_size = 40;
  recipe.train.epochs = 3;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.02;
  recipe.device = device;
  check_recipe(recipe);
  return recipe;
}

TrainResult train(const Recipe& recipe) {
  Trainer trainer(recipe);
  Observer observer;
  return trainer.run(observer);
}

TEST(CudaTrainer, EpochsFollowTheCpus) {
  if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  const TrainResult cpu = train(small_recipe(BackendKind::CPU)),
                    cuda = train(small_recipe(BackendKind::CUDA));
  EXPECT_EQ(cuda.epochs, 3);
  EXPECT_EQ(cuda.val.samples, 150);
  EXPECT_NEAR(cuda.val.loss, cpu.val.loss, 1e-3 * cpu.val.loss);
  EXPECT_NEAR(cuda.val.top1, cpu.val.top1, 0.01);
}

TEST(CudaTrainer, TheNumberOfLoadersChangesNothing) {
  if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  Recipe recipe = small_recipe(BackendKind::CUDA);
  recipe.precision = Precision::FP16;
  std::vector<StateDict> states;
  for (const int64_t workers : {1, 3}) {
    recipe.data.workers = workers;
    Trainer trainer(recipe);
    Observer observer;
    trainer.run(observer);
    states.push_back(trainer.state_dict());
  }
  ASSERT_EQ(states[0].tensors.size(), states[1].tensors.size());
  for (size_t i = 0; i < states[0].tensors.size(); ++i)
    EXPECT_EQ(states[0].tensors[i].second.data, states[1].tensors[i].second.data)
        << states[0].tensors[i].first;
}

}  // namespace
}  // namespace tr::test
