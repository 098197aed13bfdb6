// A training that is stopped and resumed ends with the bits of one that is not, wherever it was stopped.
#include "train/resume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "renaissance/train/trainer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/recipe_keys.h"

namespace tr {
namespace {

using test::TempFolder;

/// Of 63 samples: seven steps of eight and one of seven; of 13 for validation: one of eight and one of five.
Recipe small_recipe() {
  Recipe recipe;
  recipe.name = "small";
  recipe.threads = 1;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 4;
  recipe.data.train_samples = 63;
  recipe.data.val_samples = 13;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 8;
  recipe.augment.crop_padding = 1;
  recipe.augment.horizontal_flip = true;
  recipe.model.layers =
      seq(named("conv1", conv(4, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(), maxpool(2, 2),
          named("conv2", conv(8, 3, 2, 1)), relu(), dropout(0.25), gap(), flatten(), named("fc", fc(4)));
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.05;
  recipe.optimizer.weight_decay = 1e-3;
  recipe.schedule.kind = ScheduleKind::COSINE;
  recipe.train.epochs = 3;
  recipe.train.batch_size = 8;
  recipe.train.seed = 11;
  return recipe;
}

constexpr int STEPS = 8, VAL_STEPS = 2;

/// Stops at question `stop`: one follows every step, of training and of validation. 0: never.
class Recorder : public Observer {
 public:
  explicit Recorder(int stop = 0) : stop_(stop) {}
  bool should_stop() override { return ++asked_ >= stop_ && stop_ > 0; }
  void on_epoch(const EpochReport& report) override {
    if (!report.interrupted) reports.push_back(report);
  }
  std::vector<EpochReport> reports;

 private:
  int stop_, asked_ = 0;
};

void expect_same_state(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].first, b.tensors[i].first);
    EXPECT_EQ(a.tensors[i].second.data, b.tensors[i].second.data) << a.tensors[i].first;
  }
}

void expect_same_metrics(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.top1, b.top1);
  EXPECT_EQ(a.top5, b.top5);
  EXPECT_EQ(a.samples, b.samples);
}

void expect_same_report(const EpochReport& a, const EpochReport& b) {
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.steps, b.steps);
  expect_same_metrics(a.train, b.train);
  expect_same_metrics(a.val, b.val);
  ASSERT_EQ(a.val_ema.has_value(), b.val_ema.has_value());
  if (a.val_ema) expect_same_metrics(*a.val_ema, *b.val_ema);
  EXPECT_EQ(a.batches, b.batches);
  EXPECT_EQ(a.learning_rate, b.learning_rate);
  EXPECT_EQ(a.skipped_steps, b.skipped_steps);
}

/// Stops after `stop` steps, goes on in a new trainer, and expects what `whole` left.
void expect_same_when_stopped(const Recipe& recipe, int stop, const StateDict& whole,
                              const std::vector<EpochReport>& reports) {
  SCOPED_TRACE(cat("stopped after ", stop));
  Recorder first(stop);
  Trainer stopped(recipe);
  EXPECT_TRUE(stopped.run(first).interrupted);
  const StateDict checkpoint = stopped.checkpoint();
  Recorder second;
  Trainer resumed(recipe);
  resumed.resume(checkpoint, "checkpoint");
  const TrainResult result = resumed.run(second);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.epochs, recipe.train.epochs);
  expect_same_state(resumed.checkpoint(), whole);
  first.reports.insert(first.reports.end(), second.reports.begin(), second.reports.end());
  ASSERT_EQ(first.reports.size(), reports.size());
  for (size_t i = 0; i < reports.size(); ++i) expect_same_report(first.reports[i], reports[i]);
  expect_same_metrics(result.val, reports.back().val);
}

struct Case {
  std::string name;
  void (*change)(Recipe&);
};
std::ostream& operator<<(std::ostream& out, const Case& tested) { return out << tested.name; }

const std::vector<Case> CASES{
    {"plain", [](Recipe&) {}},
    {"adam_ranks",
     [](Recipe& recipe) {
       recipe.ranks = 3;
       recipe.train.batch_size = 3;
       recipe.data.train_samples = 66;  // seven steps of nine, and one of three
       recipe.optimizer.kind = OptimizerKind::ADAM;
       recipe.optimizer.learning_rate = 0.002;
     }},
    {"lars", [](Recipe& recipe) { recipe.optimizer.kind = OptimizerKind::LARS; }},
    {"low_resolution",
     [](Recipe& recipe) {
       recipe.train.low_resolution = 6;
       recipe.train.low_resolution_epochs = 1;
     }},
    {"accumulated",
     [](Recipe& recipe) {
       recipe.train.accumulate = 3;
       recipe.ranks = 2;
       recipe.train.batch_size = 4;
     }},
    {"averaged",
     [](Recipe& recipe) {
       recipe.ema.decay = 0.9;
       recipe.ema.switch_epochs = 2;
     }},
    {"mixed",
     [](Recipe& recipe) {
       recipe.augment.mixup = 0.4;
       recipe.augment.cutmix = 1.0;
       recipe.augment.random_erasing = 0.5;
       recipe.train.label_smoothing = 0.1;
     }},
    {"clipped_frozen",
     [](Recipe& recipe) {
       recipe.optimizer.clip_norm = 0.5;
       recipe.train.freeze = {"conv2.*"};
     }},
    {"fp16_scaled",
     [](Recipe& recipe) {
       recipe.precision = Precision::FP16;
       recipe.train.loss_scale = 1e9;  // the first steps overflow
       recipe.train.loss_scale_growth_steps = 5;
     }},
    {"bf16_adamw",
     [](Recipe& recipe) {
       recipe.precision = Precision::BF16;
       recipe.optimizer.kind = OptimizerKind::ADAMW;
       recipe.ema.decay = 0.9;
     }},
};

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, EndsWithTheSameBitsWhereverItWasStopped) {
  Recipe recipe = small_recipe();
  GetParam().change(recipe);
  check_recipe(recipe);
  Recorder recorder;
  Trainer whole(recipe);
  whole.run(recorder);
  const StateDict state = whole.checkpoint();
  // In the first epoch; in its validation; within the second epoch; at its last step; in the third.
  const int validations = recipe.ema.decay > 0.0 ? 2 * VAL_STEPS : VAL_STEPS;
  const int epoch = STEPS + validations;
  for (const int stop : {3, STEPS + 1, epoch + 4, epoch + STEPS, 2 * epoch + 1})
    expect_same_when_stopped(recipe, stop, state, recorder.reports);
}

INSTANTIATE_TEST_SUITE_P(Cases, Resume, testing::ValuesIn(CASES),
                         [](const auto& tested) { return tested.param.name; });

TEST(ResumeTest, OneTrainerGoesOnToo) {
  const Recipe recipe = small_recipe();
  Trainer whole(recipe), stopped(recipe);
  Recorder never, soon(STEPS + 1), rest;
  whole.run(never);
  EXPECT_TRUE(stopped.run(soon).interrupted);
  EXPECT_EQ(stopped.progress().epochs, 0);
  EXPECT_EQ(stopped.progress().epoch_steps, STEPS);
  EXPECT_FALSE(stopped.run(rest).interrupted);
  expect_same_state(stopped.checkpoint(), whole.checkpoint());
}

TEST(ResumeTest, AFinishedTrainingKeepsItsResult) {
  const Recipe recipe = small_recipe();
  Trainer whole(recipe), again(recipe);
  Recorder recorder, silent;
  const TrainResult result = whole.run(recorder);
  again.resume(whole.checkpoint(), "checkpoint");
  const TrainResult same = again.run(silent);
  EXPECT_TRUE(silent.reports.empty());
  EXPECT_EQ(same.epochs, 3);
  expect_same_metrics(same.val, result.val);
  expect_same_state(again.state_dict(), whole.state_dict());
}

TEST(ResumeTest, MoreEpochsWhereTheScheduleDoesNotMind) {
  Recipe recipe = small_recipe();
  recipe.schedule.kind = ScheduleKind::STEP;
  recipe.schedule.step_epochs = 2.0;
  Recipe half = recipe;
  recipe.train.epochs = 4;
  half.train.epochs = 2;
  Trainer whole(recipe), first(half), second(recipe);
  Recorder silent;
  whole.run(silent);
  first.run(silent);
  second.resume(first.checkpoint(), "checkpoint");
  second.run(silent);
  expect_same_state(second.checkpoint(), whole.checkpoint());
}

TEST(ResumeTest, OtherEpochsAreRefusedWhereTheScheduleMinds) {
  Recipe recipe = small_recipe();
  Trainer trained(recipe);
  Recorder silent;
  trained.run(silent);
  const StateDict checkpoint = trained.checkpoint();
  recipe.train.epochs = 6;
  Trainer longer(recipe);
  test::expect_error(ErrorKind::RecipeError, {"a.safetensors: train.epochs was 3 and is 6", "learning rate"},
                     [&] { longer.resume(checkpoint, "a.safetensors"); });
  recipe.train.epochs = 2;
  Trainer shorter(recipe);
  test::expect_error(ErrorKind::RecipeError, {"epoch 3 was reached", "give at least 3"},
                     [&] { shorter.resume(checkpoint, "a.safetensors"); });
}

TEST(ResumeTest, ARecipeOfAnotherTrainingIsRefusedWithEveryKey) {
  Recipe recipe = small_recipe();
  const StateDict checkpoint = Trainer(recipe).checkpoint();
  recipe.optimizer.learning_rate = 0.1;
  recipe.augment.horizontal_flip = false;
  recipe.train.log_interval = 5;  // changes nothing
  recipe.threads = 2;
  Trainer other(recipe);
  test::expect_error(ErrorKind::RecipeError,
                     {"a.safetensors: the recipe is another training's",
                      "\n  augment.horizontal_flip: true in the checkpoint, false now",
                      "\n  optimizer.learning_rate: 0.05 in the checkpoint, 0.1 now"},
                     [&] { other.resume(checkpoint, "a.safetensors"); });
}

TEST(ResumeTest, ARefusedCheckpointChangesNothing) {
  Recipe recipe = small_recipe();
  Trainer trained(recipe);
  Recorder silent;
  trained.run(silent);
  const StateDict checkpoint = trained.checkpoint();
  CheckpointInfo info = checkpoint_info(checkpoint, "a");

  Trainer fresh(recipe);
  const StateDict before = fresh.checkpoint();
  StateDict other = checkpoint;
  std::erase_if(other.tensors, [](const auto& tensor) { return tensor.first == "first_moment.fc.bias"; });
  other.tensors.front().second.shape = {1};
  other.tensors.front().second.data.resize(4);
  describe_checkpoint(other, info);
  test::expect_error(ErrorKind::DataError,
                     {"a: the checkpoint does not fit the model", "missing: first_moment.fc.bias",
                      "different: " + other.tensors.front().first},
                     [&] { fresh.resume(other, "a"); });
  other = checkpoint;
  info.train_samples = 64;
  describe_checkpoint(other, info);
  test::expect_error(ErrorKind::DataError, {"a: trained on 64 + 13 samples of 8x8x3 in 4 classes"},
                     [&] { fresh.resume(other, "a"); });
  expect_same_state(fresh.checkpoint(), before);
}

TEST(ResumeTest, EveryFreeKeyExists) {
  std::vector<std::string> known;
  for (const RecipeKey& key : recipe_keys()) known.push_back(key.key);
  for (const std::string& key : free_recipe_keys())
    EXPECT_NE(std::find(known.begin(), known.end(), key), known.end()) << key;
}

TEST(Checkpoint, WeightsComeOutOfIt) {
  const Recipe recipe = small_recipe();
  Trainer trained(recipe), fresh(recipe);
  Recorder silent;
  trained.run(silent);
  const StateDict weights = weights_of(trained.checkpoint());
  const StateDict expected = trained.state_dict();
  ASSERT_EQ(weights.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_NE(weights.find(name), nullptr) << name;
    EXPECT_EQ(weights.find(name)->shape, tensor.shape) << name;
    EXPECT_EQ(weights.find(name)->data, tensor.data) << name;
  }
  fresh.load_state_dict(weights);
  test::refuses(ErrorKind::DataError, "ema.decay 0", [&] { weights_of(trained.checkpoint(), true); });
}

TEST(Checkpoint, AveragedWeightsComeOutOfIt) {
  Recipe recipe = small_recipe();
  recipe.ema.decay = 0.9;
  Trainer trained(recipe);
  Recorder silent;
  trained.run(silent);
  const StateDict weights = weights_of(trained.checkpoint(), true), expected = trained.ema_state_dict();
  ASSERT_EQ(weights.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors)
    EXPECT_EQ(weights.find(name)->data, tensor.data) << name;
}

TEST(Checkpoint, WhatRanksDoNotShareIsKeptForEach) {
  Recipe recipe = small_recipe();
  recipe.ranks = 2;
  recipe.train.batch_size = 4;
  const StateDict state = Trainer(recipe).checkpoint();
  const auto holds = [&](const char* name) { return state.find(name) != nullptr; };
  EXPECT_TRUE(holds("state.dropout_seed") && holds("rank1.state.dropout_seed"));
  EXPECT_TRUE(holds("state.step"));
  EXPECT_FALSE(holds("rank1.state.step"));
  EXPECT_TRUE(holds("model.conv1.weight") && holds("first_moment.conv1.weight"));
  EXPECT_EQ(state.find("first_moment.conv1.weight")->shape, state.find("model.conv1.weight")->shape);
}

TEST(Checkpoint, DamageIsFound) {
  const TempFolder folder;
  const StateDict checkpoint = Trainer(small_recipe()).checkpoint();
  const auto file = folder / "a.safetensors";
  write_safetensors(file, checkpoint);
  EXPECT_EQ(checkpoint_info(read_safetensors(file), "a").progress.epochs, 0);
  std::string bytes = test::read_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  test::write_file(file, bytes);
  test::expect_error(ErrorKind::DataError, {"a.safetensors: the checkpoint is damaged", "checksum"},
                     [&] { checkpoint_info(read_safetensors(file), "a.safetensors"); });
  test::write_file(file, bytes.substr(0, bytes.size() / 2));
  test::refuses(ErrorKind::DataError, "a.safetensors", [&] { read_safetensors(file); });

  StateDict newer = checkpoint;
  newer.metadata["format_version"] = "2";
  test::expect_error(ErrorKind::DataError, {"format 2", "use renaissance"},
                     [&] { checkpoint_info(newer, "a"); });
  StateDict half = checkpoint;
  half.metadata.erase("progress");
  test::refuses(ErrorKind::DataError, "checksum", [&] { checkpoint_info(half, "a"); });
  half.metadata.erase("crc32");
  test::refuses(ErrorKind::DataError, "crc32", [&] { checkpoint_info(half, "a"); });
  test::refuses(ErrorKind::DataError, "not a checkpoint but",
                [&] { checkpoint_info(weights_of(checkpoint), "a"); });
}

TEST(Checkpoint, ARecipesBytesNeedNotBeUtf8) {
  Recipe recipe = small_recipe();
  recipe.run_dir = "caf\xe9";
  const TempFolder folder;
  write_safetensors(folder / "a.safetensors", Trainer(recipe).checkpoint());
  const CheckpointInfo info = checkpoint_info(read_safetensors(folder / "a.safetensors"), "a");
  EXPECT_EQ(parse_recipe(info.recipe, "again"), recipe);
}

TEST(CheckpointFolderTest, KeepsTheNewestAndTheBest) {
  const TempFolder temporary;
  Recipe recipe = small_recipe();
  recipe.train.epochs = 5;
  recipe.checkpoint.every_steps = 5;
  recipe.checkpoint.keep_last = 3;
  Trainer trainer(recipe);
  const CheckpointFolder folder(temporary / "checkpoints");
  trainer.keep_checkpoints(folder);
  Recorder silent;
  trainer.run(silent);
  std::vector<std::string> names;
  for (const CheckpointFolder::Entry& entry : folder.entries())
    names.push_back(entry.file.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"epoch-0005.safetensors", "epoch-0004-step-000008.safetensors",
                                             "epoch-0004-step-000003.safetensors"}));
  const CheckpointInfo best = checkpoint_info(read_safetensors(folder.best()), "best");
  EXPECT_EQ(best.progress.epochs, best.progress.best_epoch);
  EXPECT_EQ(best.progress.best_epoch, trainer.progress().best_epoch);
  EXPECT_EQ(best.progress.val.top1, trainer.progress().best_top1);

  test::write_file(folder.path() / "epoch-0009.safetensors.tmp", "left by a killed program");
  test::write_file(folder.path() / "mine.txt", "stays");
  folder.clear();
  EXPECT_TRUE(folder.entries().empty());
  EXPECT_FALSE(std::filesystem::exists(folder.best()));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "epoch-0009.safetensors.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "mine.txt"));
}

TEST(CheckpointFolderTest, TheNewestThatIsWholeIsFound) {
  const TempFolder temporary;
  const CheckpointFolder folder(temporary / "checkpoints");
  EXPECT_FALSE(newest_checkpoint(folder).has_value());
  const StateDict checkpoint = Trainer(small_recipe()).checkpoint();
  TrainingProgress progress;
  for (const int64_t epochs : {1, 2, 10}) {
    progress.epochs = epochs;
    folder.add(checkpoint, progress, 5, false);
  }
  EXPECT_EQ(newest_checkpoint(folder)->file.filename(), "epoch-0010.safetensors");
  test::write_file(folder.path() / "epoch-0010.safetensors", "no");
  const auto found = newest_checkpoint(folder);
  EXPECT_EQ(found->file.filename(), "epoch-0002.safetensors");
  ASSERT_EQ(found->passed_over.size(), 1u);
  EXPECT_NE(found->passed_over[0].find("epoch-0010.safetensors"), std::string::npos);
  // Going back leaves nothing of what came after, nor of what a killed program left.
  const auto half = test::write_file(folder.path() / "epoch-0004-step-000009.safetensors.tmp", "half");
  progress.epochs = 1;
  progress.epoch_steps = 2;
  folder.add(checkpoint, progress, 5, false);
  EXPECT_EQ(folder.entries().size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(half));
  test::write_file(folder.path() / "epoch-0001-step-000002.safetensors", "no");
  test::write_file(folder.path() / "epoch-0001.safetensors", "");
  test::expect_error(ErrorKind::DataError, {"no checkpoint is whole", "epoch-0001.safetensors"},
                     [&] { newest_checkpoint(folder); });
}

}  // namespace
}  // namespace tr
