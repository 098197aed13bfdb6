// Stopping and resuming on a card, where steps take in the next batch ahead: the same bits as at once.
#include <gtest/gtest.h>

#include "renaissance/train/trainer.h"
#include "support/cuda_rig.h"

namespace tr::test {
namespace {

/// Five steps of 64 and one of 10 an epoch, four of 40 for validation.
Recipe small_recipe(Precision precision) {
  Recipe recipe;
  recipe.name = "small";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.height = recipe.data.width = 12;
  recipe.data.channels = 1;
  recipe.data.classes = 10;
  recipe.data.train_samples = 330;
  recipe.data.val_samples = 150;
  recipe.augment.crop_padding = 1;
  recipe.augment.horizontal_flip = true;
  recipe.train.batch_size = 64;
  recipe.train.val_batch_size = 40;
  recipe.train.low_resolution = 8;
  recipe.train.low_resolution_epochs = 1;
  recipe.train.epochs = 3;
  recipe.optimizer.kind = OptimizerKind::ADAMW;
  recipe.optimizer.learning_rate = 0.002;
  recipe.schedule.kind = ScheduleKind::COSINE;
  recipe.device = BackendKind::CUDA;
  recipe.precision = precision;
  recipe.model.layers = seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), dropout(0.2),
                            gap(), flatten(), fc(10));
  check_recipe(recipe);
  return recipe;
}

class StopAt : public Observer {
 public:
  explicit StopAt(int stop) : stop_(stop) {}
  bool should_stop() override { return ++asked_ >= stop_ && stop_ > 0; }

 private:
  int stop_, asked_ = 0;
};

TEST(CudaResume, EndsWithTheSameBitsWhereverItWasStopped) {
  if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  for (const Precision precision : {Precision::FP32, Precision::FP16, Precision::BF16}) {
    const Recipe recipe = small_recipe(precision);
    Trainer whole(recipe);
    Observer never;
    whole.run(never);
    const StateDict expected = whole.checkpoint();
    // Odd and even steps, so that both input buffers come first; in validation; before the smaller last step.
    for (const int stop : {1, 2, 5, 8, 10 + 3, 10 + 4, 20 + 5}) {
      SCOPED_TRACE(cat(precision_name(precision), " stopped after ", stop));
      StopAt observer(stop);
      Trainer stopped(recipe), resumed(recipe);
      EXPECT_TRUE(stopped.run(observer).interrupted);
      resumed.resume(stopped.checkpoint(), "checkpoint");
      resumed.run(never);
      const StateDict state = resumed.checkpoint();
      ASSERT_EQ(state.tensors.size(), expected.tensors.size());
      for (size_t i = 0; i < state.tensors.size(); ++i)
        EXPECT_EQ(state.tensors[i].second.data, expected.tensors[i].second.data) << state.tensors[i].first;
    }
  }
}

}  // namespace
}  // namespace tr::test
