#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

Outcome train(const TempFolder& folder, const std::string& recipe, std::vector<std::string> overrides = {}) {
  write_file(folder / "r.yaml", recipe);
  std::vector<std::string> arguments{"train", "r.yaml", "--run-dir", "run"};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  const Outcome outcome = run_program(folder.path(), arguments);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  return outcome;
}

TEST(RecipeRefusal, UnknownKeyNamesTheNearestAndItsPlace) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe("optimizer:\n  learning_rat: 0.1\n"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("r.yaml:7"));
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'optimizer.learning_rate'?"));
}

TEST(RecipeRefusal, UnknownKeyOnTheCommandLine) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe(), {"train.epoch=3"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'train.epochs'?"));
}

TEST(RecipeRefusal, UnknownModel) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe(), {"model=resnet5"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("model 'resnet5' is not known"));
}

TEST(RecipeRefusal, MissingRecipe) {
  const TempFolder folder;
  const Outcome outcome = run_program(folder.path(), {"train", "none.yaml"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none.yaml"));
}

TEST(ModelRefusal, WrongNumberOfOutputs) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe(), {"data.classes=5"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("5 classes"));
}

constexpr const char* BN_ON_ONE_VALUE = "model={layers: [gap, {bn: {name: norm}}, flatten, {fc: 4}]}";

TEST(ModelRefusal, BatchNormOnOneValue) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe(), {BN_ON_ONE_VALUE, "train.batch_size=1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("norm"));
}

TEST(ModelRefusal, BatchNormOnALastBatchOfOne) {
  const TempFolder folder;
  // 70 samples leave one after batches of 23.
  const Outcome outcome = train(folder, small_recipe(), {BN_ON_ONE_VALUE, "train.batch_size=23"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("norm"));
}

TEST(ModelRefusal, DeviceThatTheBuildLacks) {
  const TempFolder folder;
  const Outcome outcome = train(folder, small_recipe(), {"device=abacus"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("abacus"));
}

}  // namespace
}  // namespace tr::test
