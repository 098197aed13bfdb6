// Whole trainings on small data: determinism, ranks, remainders, resolutions, weights out and in.
#include "renaissance/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/cuda_rig.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

BluePrint small_cnn() {
  return seq(named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(), maxpool(2, 2),
             named("conv2", conv(16, 3, 2, 1)), relu(), dropout(0.25), gap(), flatten(), named("fc", fc(4)));
}

BluePrint small_mlp() { return seq(flatten(), named("fc1", fc(24)), relu(), named("fc2", fc(4))); }

Recipe small_recipe(BluePrint layers) {
  Recipe recipe;
  recipe.name = "small";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 4;
  recipe.data.train_samples = 203;
  recipe.data.val_samples = 45;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 12;
  recipe.augment = {2, true};
  recipe.model.layers = std::move(layers);
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.05;
  recipe.optimizer.weight_decay = 1e-3;
  recipe.schedule.kind = ScheduleKind::COSINE;
  recipe.train.epochs = 2;
  recipe.train.batch_size = 16;
  recipe.train.seed = 11;
  return recipe;
}

struct Outcome {
  TrainResult result;
  StateDict weights;
};

Outcome train(const Recipe& recipe) {
  Trainer trainer(recipe);
  Observer silent;
  const TrainResult result = trainer.run(silent);
  return {result, trainer.state_dict()};
}

void expect_same_bytes(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].first, b.tensors[i].first);
    EXPECT_EQ(a.tensors[i].second.data, b.tensors[i].second.data) << a.tensors[i].first;
  }
}

std::vector<float> floats(const StateTensor& tensor) {
  const auto* data = reinterpret_cast<const float*>(tensor.data.data());
  return {data, data + tensor.data.size() / sizeof(float)};
}

TEST(TrainerTest, LearnsSyntheticData) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.train.epochs = 8;
  const Outcome outcome = train(recipe);
  EXPECT_GT(outcome.result.val.top1, 0.9);
  EXPECT_EQ(outcome.result.val.samples, 45);
  EXPECT_EQ(outcome.result.epochs, 8);
}

TEST(TrainerTest, SameSeedSameBytesWhateverTheNumberOfLoaders) {
  Recipe recipe = small_recipe(small_cnn());
  const Outcome first = train(recipe);
  expect_same_bytes(first.weights, train(recipe).weights);
  recipe.data.workers = 2;
  expect_same_bytes(first.weights, train(recipe).weights);
  recipe.train.seed = 12;
  EXPECT_NE(first.weights.tensors[0].second.data, train(recipe).weights.tensors[0].second.data);
}

TEST(TrainerTest, ComputeThreadsAreTheRecipes) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.threads = 1;
  const Outcome one = train(recipe);
  expect_same_bytes(one.weights, train(recipe).weights);
  recipe.threads = 5;  // more than cores: scratch is planned for as many
  const Outcome five = train(recipe);
  expect_same_bytes(five.weights, train(recipe).weights);
  EXPECT_NEAR(one.result.val.loss, five.result.val.loss, 1e-3);
}

TEST(TrainerTest, TwoContextsLiveInOneProcess) {
  const Recipe recipe = small_recipe(small_cnn());
  Trainer a(recipe), b(recipe);
  Observer silent;
  a.run(silent);
  b.run(silent);
  expect_same_bytes(a.state_dict(), b.state_dict());
}

/// With no BatchNorm and dropout, n ranks with batch b take the same steps as one rank with batch n b.
TEST(TrainerTest, RanksAverageGradients) {
  Recipe recipe = small_recipe(small_mlp());
  recipe.augment = {};
  recipe.data.train_samples = 192;
  recipe.train.batch_size = 16;
  const Outcome one = train(recipe);
  recipe.ranks = 8;
  recipe.train.batch_size = 2;
  const Outcome eight = train(recipe);
  for (size_t i = 0; i < one.weights.tensors.size(); ++i) {
    const std::vector<float> a = floats(one.weights.tensors[i].second),
                             b = floats(eight.weights.tensors[i].second);
    for (size_t k = 0; k < a.size(); ++k)
      EXPECT_NEAR(a[k], b[k], 2e-5) << one.weights.tensors[i].first << ' ' << k;
  }
  EXPECT_NEAR(one.result.val.loss, eight.result.val.loss, 1e-4);
}

TEST(TrainerTest, EightRanksHoldTheSameWeightsAndCountEverySampleOnce) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.ranks = 8;
  recipe.train.batch_size = 3;
  recipe.train.val_batch_size = 4;  // 45 samples on 8 ranks: one step of 32, then 13 on ranks of two
  Trainer trainer(recipe);
  Observer silent;
  const TrainResult result = trainer.run(silent);
  EXPECT_EQ(result.val.samples, 45);
  EXPECT_NEAR(std::round(result.val.top1 * 45), result.val.top1 * 45, 1e-3);
  const MemoryPlan& plan = trainer.model().plan(Variant::TRAIN_BASE);
  const auto [offset, bytes] = plan.region_range(Region::W_BN_BIAS, Region::W_DEEP_CONV);
  const auto [stats, stats_bytes] = plan.region_range(Region::B_PREV_MEAN, Region::B_NEXT_VAR);
  std::vector<char> first(static_cast<size_t>(bytes)), other(first.size());
  std::vector<char> first_stats(static_cast<size_t>(stats_bytes)), other_stats(first_stats.size());
  trainer.context().read(0, offset, first.data(), bytes);
  trainer.context().read(0, stats, first_stats.data(), stats_bytes);
  for (int rank = 1; rank < 8; ++rank) {
    trainer.context().read(rank, offset, other.data(), bytes);
    trainer.context().read(rank, stats, other_stats.data(), stats_bytes);
    EXPECT_EQ(first, other) << "rank " << rank;
    EXPECT_EQ(first_stats, other_stats) << "rank " << rank;
  }
}

TEST(TrainerTest, ValidationIsTheSameForEveryBatchSize) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.train.val_batch_size = 45;
  const Outcome whole = train(recipe);
  for (const int64_t batch : {1, 7, 16, 44, 500}) {
    recipe.train.val_batch_size = batch;
    const Outcome cut = train(recipe);
    EXPECT_NEAR(cut.result.val.loss, whole.result.val.loss, 1e-5) << batch;
    EXPECT_NEAR(cut.result.val.top1, whole.result.val.top1, 1e-6) << batch;
    EXPECT_NEAR(cut.result.val.top5, 1.0, 1e-6) << "4 classes: all are among the best five";
  }
}

TEST(TrainerTest, StepsCoverTheEpochWithItsRemainder) {
  const Recipe recipe = small_recipe(small_cnn());
  const StepPlan steps = plan_steps(recipe, data_info(recipe, true));
  EXPECT_EQ(steps.steps, 12);
  EXPECT_EQ(steps.last_batch, 203 - 12 * 16);
  class Count : public Observer {
   public:
    void on_epoch(const EpochReport& report) override { reports.push_back(report); }
    std::vector<EpochReport> reports;
  } count;
  Trainer trainer(recipe);
  trainer.run(count);
  ASSERT_EQ(count.reports.size(), 2u);
  EXPECT_EQ(count.reports[0].train.samples, 203);
  EXPECT_EQ(count.reports[1].steps, 26);
  EXPECT_EQ(count.reports[1].skipped_steps, 0);
}

TEST(TrainerTest, LowResolutionEpochsUseTheirOwnShapes) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.train.low_resolution = 8;
  recipe.train.low_resolution_epochs = 1;
  Trainer trainer(recipe);
  Observer silent;
  EXPECT_GT(trainer.run(silent).val.samples, 0);
  EXPECT_EQ(trainer.model().plan(Variant::TRAIN_LOWRES).tensor(INPUT_A_DATA).shape, Shape(16, 8, 8, 3));
  EXPECT_EQ(trainer.model().plan(Variant::VAL_BASE).tensor(INPUT_A_DATA).shape, Shape(16, 12, 12, 3));
}

TEST(TrainerTest, WeightsGoOutAndComeBack) {
  const Recipe recipe = small_recipe(small_cnn());
  Trainer trained(recipe);
  Observer silent;
  const TrainResult result = trained.run(silent);
  Trainer fresh(recipe);
  fresh.load_state_dict(trained.state_dict());
  expect_same_bytes(trained.state_dict(), [&] {
    StateDict state = fresh.state_dict();
    for (auto& [name, tensor] : state.tensors)
      if (tensor.dtype == "I64") tensor.data = trained.state_dict().find(name)->data;
    return state;
  }());
  EXPECT_EQ(fresh.evaluate().loss, result.val.loss);
  const StateDict state = trained.state_dict();
  EXPECT_EQ(state.find("conv1.weight")->shape, (std::vector<int64_t>{8, 3, 3, 3}));
  EXPECT_EQ(state.find("fc.weight")->shape, (std::vector<int64_t>{4, 16}));
  ASSERT_NE(state.find("bn1.num_batches_tracked"), nullptr);
}

TEST(TrainerTest, StrictLoadingListsEveryDifference) {
  Trainer trainer(small_recipe(small_cnn()));
  StateDict state = trainer.state_dict();
  state.tensors[0].first = "conv9.weight";
  for (auto& [name, tensor] : state.tensors)
    if (name == "fc.bias") {
      tensor.shape = {3};
      tensor.data.resize(12);
    }
  test::expect_error(
      ErrorKind::DataError,
      {"missing (1): conv1.weight", "unexpected (1): conv9.weight", "fc.bias [3] instead of [4]"},
      [&] { trainer.load_state_dict(state); });
}

TEST(TrainerTest, WeightsWhoseBytesDoNotFitTheirShapeAreRefused) {
  Trainer trainer(small_recipe(small_cnn()));
  StateDict state = trainer.state_dict();
  state.tensors[0].second.data.resize(8);
  test::refuses(ErrorKind::DataError, "conv1.weight has 8 bytes", [&] { trainer.load_state_dict(state); });
}

TEST(TrainerTest, AnObserverCanStopAfterAStep) {
  class StopAtFive : public Observer {
   public:
    bool should_stop() override { return ++asked >= 5; }
    int asked = 0;
  } observer;
  Trainer trainer(small_recipe(small_cnn()));
  const TrainResult result = trainer.run(observer);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.epochs, 0);
  EXPECT_EQ(observer.asked, 5);
}

TEST(TrainerTest, AnObserverCanStopDuringValidationAndTheEpochIsReported) {
  class StopInValidation : public Observer {
   public:
    // 13 training steps, then 3 of validation.
    bool should_stop() override { return ++asked == 15; }
    void on_epoch(const EpochReport& report) override { reports.push_back(report); }
    int asked = 0;
    std::vector<EpochReport> reports;
  } observer;
  Trainer trainer(small_recipe(small_cnn()));
  const TrainResult result = trainer.run(observer);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.epochs, 0);
  EXPECT_EQ(observer.asked, 15);
  ASSERT_EQ(observer.reports.size(), 1u);
  EXPECT_TRUE(observer.reports[0].interrupted);
  EXPECT_EQ(observer.reports[0].train.samples, 203);
  // Nothing is left running: the trainer can go on.
  EXPECT_EQ(trainer.evaluate().samples, 45);
}

TEST(TrainerTest, RanksDropOtherElements) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.ranks = 3;
  Trainer trainer(recipe);
  std::array<uint32_t, 3> seeds{};
  for (int rank = 0; rank < 3; ++rank)
    trainer.context().read(rank, trainer.model().plan(Variant::TRAIN_BASE).tensor(DROPOUT_SEED).offset,
                           &seeds[static_cast<size_t>(rank)], sizeof(uint32_t));
  EXPECT_NE(seeds[0], seeds[1]);
  EXPECT_NE(seeds[1], seeds[2]);
}

TEST(TrainerTest, LargeSyntheticSetsRepeatInsteadOfFillingMemory) {
  Recipe recipe = small_recipe(seq(conv(2, 3, 2, 1), relu(), gap(), flatten(), fc(4)));
  recipe.augment = {};
  recipe.data.height = recipe.data.width = 640;
  recipe.data.train_samples = 100'000'000;  // 123 TB of pixels
  recipe.data.val_samples = 1;
  recipe.train.batch_size = 1;
  class StopSoon : public Observer {
   public:
    bool should_stop() override { return ++asked == 3; }
    int asked = 0;
  } observer;
  Trainer trainer(recipe);
  EXPECT_TRUE(trainer.run(observer).interrupted);
}

TEST(TrainerTest, TooLittleMemoryNamesTheLargestBatchThatFits) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.data.height = recipe.data.width = 512;
  recipe.data.train_samples = 2'000'000;
  recipe.train.batch_size = 1'000'000;
  try {
    Trainer trainer(recipe);
    FAIL() << "terabytes were had";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DeviceError);
    const std::string text = error.what();
    const std::string phrase = "the largest train.batch_size that fits is ";
    ASSERT_NE(text.find(phrase), std::string::npos) << text;
    const int64_t batch = std::stoll(text.substr(text.find(phrase) + phrase.size()));
    recipe.train.batch_size = batch;
    const auto needed = [&] {
      return compile(compile_request(recipe, data_info(recipe, true), true),
                     std::make_shared<const Catalog>(make_catalog()))
          .plans[0]
          .total_bytes();
    };
    EXPECT_LE(needed(), available_bytes(default_target(BackendKind::CPU)) * 1.1);
    recipe.train.batch_size = 2 * batch;
    EXPECT_GT(needed(), available_bytes(default_target(BackendKind::CPU)));
  }
}

TEST(TrainerTest, ADivergingTrainingStopsWithAReason) {
  Recipe recipe = small_recipe(small_mlp());
  recipe.optimizer.learning_rate = 1e30;
  recipe.train.max_skipped_steps = 3;
  recipe.train.log_interval = 1;
  Trainer trainer(recipe);
  Observer silent;
  test::expect_error(ErrorKind::StateError,
                     {"gradients that are not finite", "lower optimizer.learning_rate"},
                     [&] { trainer.run(silent); });
}

TEST(TrainerTest, WeightsThatAreNoNumbersEndItBeforeTheirCheckpoint) {
  const test::TempFolder folder;
  Recipe recipe = small_recipe(small_mlp());
  recipe.schedule.kind = ScheduleKind::MULTI_STEP;
  recipe.schedule.milestones = {1};
  recipe.schedule.gamma = 1e25;
  recipe.train.epochs = 4;
  recipe.checkpoint.keep_last = 9;
  Trainer trainer(recipe);
  const CheckpointFolder checkpoints(folder.path());
  trainer.keep_checkpoints(checkpoints);
  Observer silent;
  test::expect_error(ErrorKind::StateError,
                     {"the validation loss is not a number", "Lower optimizer.learning_rate"},
                     [&] { trainer.run(silent); });
  EXPECT_EQ(checkpoints.entries().size(), 1u);
}

TEST(TrainerTest, StepsSkippedNowAndThenDoNotEndIt) {
  Recipe recipe = small_recipe(small_mlp());
  recipe.precision = Precision::FP16;
  recipe.train.loss_scale_growth_steps = 1;  // grows until it overflows, again and again
  recipe.train.max_skipped_steps = 20;
  recipe.train.log_interval = 1;
  recipe.train.epochs = 30;
  struct Skips : Observer {
    int64_t steps = 0;
    void on_epoch(const EpochReport& report) override { steps = report.skipped_steps; }
  } skips;
  Trainer trainer(recipe);
  EXPECT_EQ(trainer.run(skips).epochs, recipe.train.epochs);
  EXPECT_GT(skips.steps, recipe.train.max_skipped_steps);
}

TEST(TrainerTest, RefusesADeviceThatIsNotThere) {
  if (test::has_cuda_device()) GTEST_SKIP() << "there is a CUDA device";
  Recipe recipe = small_recipe(small_cnn());
  recipe.device = BackendKind::CUDA;
  const Catalog catalog = make_catalog();
  const bool built = catalog.find("conv").kernels[static_cast<size_t>(BackendKind::CUDA)] != nullptr;
  test::refuses(built ? ErrorKind::DeviceError : ErrorKind::NotSupportedError, "cuda",
                [&] { Trainer trainer(recipe); });
}

TEST(TrainerTest, RefusesBeforeTraining) {
  Recipe recipe = small_recipe(small_cnn());
  recipe.train.batch_size = 204;
  test::refuses(ErrorKind::RecipeError, "the data has 203; use at most 203",
                [&] { Trainer trainer(recipe); });
  recipe = small_recipe(small_cnn());
  recipe.data.classes = 5;
  test::refuses(ErrorKind::ShapeError, "5 classes need", [&] { Trainer trainer(recipe); });
}

}  // namespace
}  // namespace tr
