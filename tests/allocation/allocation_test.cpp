// Between step 3 and the end of epoch 2, training and validation: our code allocates nothing on any thread,
// and nobody 4 KiB or more.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "allocation/counting_allocator.h"
#include "renaissance/train/trainer.h"

namespace tr {
namespace {

Recipe synthetic_recipe(BluePrint layers) {
  Recipe recipe;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 10;
  recipe.data.train_samples = 300;  // 9 steps of 32 and one of 12
  recipe.data.val_samples = 70;     // 2 steps of 32 and one of 6
  recipe.data.channels = 1;
  recipe.data.height = recipe.data.width = 28;
  recipe.data.workers = 2;
  recipe.augment = {2, true};
  recipe.model.layers = std::move(layers);
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.train.epochs = 3;
  recipe.train.batch_size = 32;
  recipe.train.log_interval = 4;
  recipe.threads = 2;  // the OpenMP runtime's own bookkeeping grows with them
  return recipe;
}

/// Counts from step 3 of the first epoch to the end of the second.
class Counting : public Observer {
 public:
  bool should_stop() override {
    if (++steps_ == 3) test::start_counting();
    return false;
  }
  void on_epoch(const EpochReport& report) override {
    if (report.epoch != 2) return;
    counts = test::stop_counting();
    counted_steps = steps_ - 3;
  }
  int64_t counted_steps = 0;
  test::AllocationCounts counts;

 private:
  int64_t steps_ = 0;
};

void expect_no_allocation(const Recipe& recipe, int64_t counted_steps) {
  Trainer trainer(recipe);
  Counting observer;
  trainer.run(observer);
  EXPECT_EQ(observer.counted_steps, counted_steps);
  EXPECT_GT(observer.counts.vendor, 0) << "the counter was not running";
  EXPECT_EQ(observer.counts.ours, 0);
  EXPECT_LT(observer.counts.largest_bytes, 4096);
  std::cout << "oneDNN and OpenMP: " << observer.counts.vendor << " allocations, "
            << observer.counts.vendor_bytes << " bytes, largest " << observer.counts.largest_bytes
            << ", over " << counted_steps << " steps\n";
}

TEST(Allocation, TheCounterSeesOurAllocations) {
  test::start_counting();
  const auto big = std::make_unique<std::vector<char>>(5000);
  const test::AllocationCounts counts = test::stop_counting();
  EXPECT_EQ(counts.ours, 2);
  EXPECT_EQ(counts.largest_bytes, 5000);
  EXPECT_EQ(big->size(), 5000u);
}

TEST(Allocation, TheCounterSeesOtherThreads) {
  std::thread worker([] {
    test::start_counting();
    const auto small = std::make_unique<int>(1);
    EXPECT_EQ(*small, 1);
  });
  worker.join();
  EXPECT_EQ(test::stop_counting().ours, 1);
}

TEST(Allocation, NoneWhileAConvolutionalNetworkTrainsAndValidates) {
  const BluePrint net = seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2),
                            residual(seq(conv(8, 3, 1, 1, {.bias = false}), bn())), relu(), dropout(0.2),
                            avgpool(2, 2), flatten(), fc(32), relu(), fc(10));
  expect_no_allocation(synthetic_recipe(net), 7 + 3 + 10 + 3);
}

TEST(Allocation, NoneWithAveragedWeightsAndAccumulation) {
  Recipe recipe =
      synthetic_recipe(seq(conv(8, 3, 1, 1), bn(), relu(), maxpool(2, 2), flatten(), fc(32), relu(), fc(10)));
  recipe.train.accumulate = 4;
  recipe.train.bn_folded = true;
  recipe.ema = {0.9, true, 1};
  expect_no_allocation(recipe, 7 + 2 * 3 + 10 + 2 * 3);
}

TEST(Allocation, NoneWhileSamplesAreErasedAndMixed) {
  Recipe recipe = synthetic_recipe(seq(conv(4, 3, 2, 1), relu(), flatten(), fc(10)));
  recipe.augment.random_erasing = 0.5;
  recipe.augment.mixup = 0.2;
  recipe.augment.cutmix = 1.0;
  expect_no_allocation(recipe, 7 + 3 + 10 + 3);
}

TEST(Allocation, NoneWithClippedLarsAndFrozenLayers) {
  Recipe recipe = synthetic_recipe(
      seq(conv(8, 3, 1, 1), bn(), relu(), maxpool(2, 2), flatten(), fc(600), bn(), relu(), fc(10)));
  recipe.optimizer.kind = OptimizerKind::LARS;
  recipe.optimizer.clip_norm = 1.0;
  recipe.train.freeze = {"0.*", "1.*", "6.weight"};
  recipe.train.freeze_statistics = true;
  expect_no_allocation(recipe, 7 + 3 + 10 + 3);
}

TEST(Allocation, NoneInSixteenBits) {
  const BluePrint net =
      seq(conv(8, 3, 1, 1), bn(), relu(), dropout(0.2), maxpool(2, 2), flatten(), fc(32), relu(), fc(10));
  for (const Precision precision : {Precision::FP16, Precision::BF16}) {
    Recipe recipe = synthetic_recipe(net);
    recipe.precision = precision;
    expect_no_allocation(recipe, 7 + 3 + 10 + 3);
  }
}

TEST(Allocation, NoneWithTwoRanksAndAdam) {
  Recipe recipe = synthetic_recipe(seq(conv(8, 3, 2, 1), bn(), relu(), gap(), flatten(), fc(10)));
  recipe.ranks = 2;
  recipe.optimizer.kind = OptimizerKind::ADAMW;
  expect_no_allocation(recipe, 2 + 2 + 5 + 2);
}

}  // namespace
}  // namespace tr
