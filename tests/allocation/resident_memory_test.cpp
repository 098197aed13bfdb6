// What a training keeps resident is what its plan says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "renaissance/train/trainer.h"

namespace tr {
namespace {

int64_t resident_bytes() {
  int64_t pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

// Code that oneDNN generates, its descriptions, the samples, the threads' stacks: 12 MB whatever is planned.
constexpr int64_t BESIDE_THE_ARENA = 20 << 20;

Recipe recipe_of(Recompute recompute, Precision precision) {
  Recipe recipe;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 10;
  recipe.data.channels = 1;
  recipe.data.height = recipe.data.width = 28;
  recipe.data.train_samples = 96;  // a step of 64 and one of 32
  recipe.data.val_samples = 64;
  recipe.model.name = "resnet20";
  recipe.train.epochs = 1;
  recipe.train.batch_size = 64;
  recipe.recompute = recompute;
  recipe.precision = precision;
  recipe.threads = 2;
  return recipe;
}

/// In one process after the other: an allocator may keep what an earlier training gave back.
void expect_resident_as_planned(Recompute recompute, Precision precision = Precision::FP32) {
  const int64_t before = resident_bytes();
  Trainer trainer(recipe_of(recompute, precision));
  Observer observer;
  trainer.run(observer);
  const int64_t planned = trainer.model().plan(Variant::TRAIN_BASE).total_bytes();
  const int64_t taken = resident_bytes() - before;
  std::cerr << "planned " << planned << ", resident " << taken << " bytes more than before\n";
  EXPECT_GT(taken, planned - planned / 50);
  EXPECT_LT(taken, planned + BESIDE_THE_ARENA);
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

class ResidentMemory : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ResidentMemory, OfATraining) {
  EXPECT_EXIT(expect_resident_as_planned(Recompute::NONE), testing::ExitedWithCode(0), "");
}
TEST_F(ResidentMemory, OfATrainingInSixteenBits) {
  EXPECT_EXIT(expect_resident_as_planned(Recompute::NONE, Precision::BF16), testing::ExitedWithCode(0), "");
}
TEST_F(ResidentMemory, OfATrainingThatRecomputes) {
  EXPECT_EXIT(expect_resident_as_planned(Recompute::AUTO), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tr
