// Averaged weights and gradient accumulation: against recorded PyTorch, and against trainings that must
// agree.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "renaissance/train/trainer.h"
#include "support/expect_error.h"
#include "support/reference.h"
#include "support/session.h"

namespace tr {
namespace {

using test::fill;
using test::load_reference;
using test::matches;
using test::recorded;
using test::Session;

std::shared_ptr<const CompiledModel> compiled(const CompileRequest& request) {
  return std::make_shared<const CompiledModel>(
      compile(request, std::make_shared<const Catalog>(make_catalog())));
}

void put_batch(Session& session, InputBuffer buffer, const Shape& input, uint32_t stream, double scale,
               int32_t number, int64_t classes) {
  std::vector<float> pixels(static_cast<size_t>(input.numel()));
  fill(pixels, stream, scale);
  const InputSlot slot = session.context().input(0, buffer);
  put_pixels(slot, pixels, input.c());
  for (int64_t i = 0; i < input.n(); ++i) slot.labels[i] = static_cast<int32_t>((3 * i + number) % classes);
}

// ---- Averaged weights.

TEST(AveragedWeights, TwentyStepsLikeTorch) {
  for (const auto& run : load_reference("averaged_weights.json")) {
    const int64_t size = run["size"];
    Recipe recipe;
    recipe.optimizer.kind = OptimizerKind::MOMENTUM;
    recipe.optimizer.learning_rate = run["learning_rate"];
    recipe.optimizer.momentum = run["momentum"];
    CompileRequest request =
        test::session_request(seq(flatten(), named("fc", fc(1, false))), Shape(1, 1, 1, size), 1, recipe);
    request.config.has_ema = true;
    request.ema = {run["decay"], run["warmup"]};
    Session session(compiled(request), recipe);
    const ParameterTensors& tensors = session.parameter("fc.weight").tensors;
    EXPECT_EQ(session.read(tensors.ema), session.read(tensors.master)) << "they start equal";
    std::vector<float> values(static_cast<size_t>(size));
    fill(values, run["stream"]);
    session.write(tensors.master, values);
    session.write(tensors.ema, values);
    const auto update = session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                                                        {GraphId::WATCH, GraphId::OPTIMIZER, GraphId::EMA});
    for (uint32_t step = 1; step <= run["weights"].size(); ++step) {
      fill(values, run["stream"].get<uint32_t>() + step);
      session.write(tensors.grad, values);
      update->launch();
      const std::vector<float> weights = session.read(tensors.master), averages = session.read(tensors.ema);
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(weights[i], run["weights"][step - 1][i].get<double>(), 1e-5) << step << ' ' << i;
        EXPECT_NEAR(averages[i], run["averages"][step - 1][i].get<double>(), 1e-5) << step << ' ' << i;
      }
    }
  }
}

TEST(AveragedWeights, AStepThatIsSkippedOrChangesNothingLeavesThemAlone) {
  Recipe recipe;
  recipe.optimizer.learning_rate = 0.1;
  const Shape input(1, 1, 1, 9);
  CompileRequest request = test::session_request(seq(flatten(), named("fc", fc(3))), input, 3, recipe);
  request.config.has_ema = true;
  request.ema = {0.7, false};
  Session session(compiled(request), recipe);
  const ParameterTensors& tensors = session.parameter("fc.weight").tensors;
  const auto update = session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                                                      {GraphId::WATCH, GraphId::OPTIMIZER, GraphId::EMA});
  // No gradient, as of a frozen parameter: both stay equal to the bit, whatever the decay.
  session.write(tensors.grad, std::vector<float>(27, 0.0f));
  for (int step = 0; step < 3; ++step) update->launch();
  EXPECT_EQ(session.read(tensors.ema), session.read(tensors.master));
  std::vector<float> gradients(27, 1.0f);
  session.write(tensors.grad, gradients);
  update->launch();
  const std::vector<float> averages = session.read(tensors.ema);
  EXPECT_NE(averages, session.read(tensors.master));
  gradients[5] = std::numeric_limits<float>::infinity();
  session.write(tensors.grad, gradients);
  update->launch();
  EXPECT_EQ(session.counter(SKIPPED_STEPS), 1);
  EXPECT_EQ(session.read(tensors.ema), averages);
}

TEST(AveragedWeights, WarmupIsTensorFlows) {
  const EmaSpec spec{0.999, true};
  EXPECT_DOUBLE_EQ(spec.at(1), 2.0 / 11.0);
  EXPECT_DOUBLE_EQ(spec.at(90), 91.0 / 100.0);
  EXPECT_DOUBLE_EQ(spec.at(100000), 0.999);
  EXPECT_DOUBLE_EQ((EmaSpec{0.999, false}.at(1)), 0.999);
}

BluePrint small_net() {
  return seq(named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(), maxpool(2, 2),
             named("conv2", conv(8, 3, 1, 1)), named("bn2", bn()), relu(), gap(), flatten(),
             named("fc", fc(4)));
}
/// Nothing in it depends on how samples share batches.
BluePrint plain_net() {
  return seq(named("conv1", conv(6, 3, 2, 1)), relu(), flatten(), named("fc1", fc(12)), relu(),
             named("fc2", fc(4)));
}

Recipe recipe_of(BluePrint layers) {
  Recipe recipe;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 4;
  recipe.data.train_samples = 58;
  recipe.data.val_samples = 21;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 8;
  recipe.model.layers = std::move(layers);
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.05;
  recipe.optimizer.weight_decay = 1e-3;
  recipe.schedule.kind = ScheduleKind::COSINE;
  recipe.train.epochs = 2;
  recipe.train.batch_size = 12;
  recipe.train.seed = 3;
  return recipe;
}

/// What an observer is told of each epoch.
struct Reports : Observer {
  std::vector<EpochReport> epochs;
  void on_epoch(const EpochReport& report) override { epochs.push_back(report); }
};

void expect_same(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.top1, b.top1);
  EXPECT_EQ(a.top5, b.top5);
  EXPECT_EQ(a.samples, b.samples);
}
void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_EQ(a.tensors[i].second.data, b.tensors[i].second.data) << a.tensors[i].first;
}
void expect_near(const StateDict& a, const StateDict& b, double tolerance) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const auto& [name, tensor] = a.tensors[i];
    if (tensor.dtype != "F32") continue;
    std::vector<float> x(tensor.data.size() / 4), y(x.size());
    std::memcpy(x.data(), tensor.data.data(), tensor.data.size());
    std::memcpy(y.data(), b.tensors[i].second.data.data(), tensor.data.size());
    for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(x[k], y[k], tolerance) << name << ' ' << k;
  }
}

class AveragedTraining : public testing::TestWithParam<std::tuple<Precision, bool>> {
 protected:
  Recipe recipe() const {
    Recipe recipe = recipe_of(small_net());
    recipe.precision = std::get<0>(GetParam());
    recipe.train.bn_folded = std::get<1>(GetParam());
    recipe.ema = {0.8, true, 0};
    return recipe;
  }
};

/// Evaluating the averages is evaluating a network that has them as its weights, with the same statistics.
TEST_P(AveragedTraining, BothWeightsAreEvaluatedAfterEveryEpoch) {
  Trainer trainer(recipe());
  Reports reports;
  const TrainResult result = trainer.run(reports);
  ASSERT_EQ(reports.epochs.size(), 2u);
  ASSERT_TRUE(reports.epochs[1].val_ema.has_value() && result.val_ema.has_value());
  expect_same(*result.val_ema, *reports.epochs[1].val_ema);
  EXPECT_EQ(result.val_ema->samples, 21);
  EXPECT_NE(result.val_ema->loss, result.val.loss);
  expect_same(trainer.evaluate(), result.val);
  expect_same(trainer.evaluate_averaged(), *result.val_ema);

  Trainer other(recipe());
  other.load_state_dict(trainer.ema_state_dict());
  expect_same(other.evaluate(), *result.val_ema);
  expect_same(other.ema_state_dict(), other.state_dict());
  expect_same(other.evaluate_averaged(), *result.val_ema);

  // The averages take no part in training.
  Recipe without = recipe();
  without.ema = {};
  Trainer plain(without);
  EXPECT_FALSE(plain.run(reports).val_ema.has_value());
  expect_same(plain.state_dict(), trainer.state_dict());
}

INSTANTIATE_TEST_SUITE_P(PrecisionsAndFolding, AveragedTraining,
                         testing::Combine(testing::Values(Precision::FP32, Precision::BF16),
                                          testing::Bool()));

TEST(AveragedTraining, SwitchingGoesOnFromTheAverages) {
  for (const Precision precision : {Precision::FP32, Precision::BF16}) {
    Recipe recipe = recipe_of(small_net());
    recipe.precision = precision;
    recipe.ema = {0.8, true, 2};
    recipe.train.epochs = 3;
    Trainer trainer(recipe);
    Reports reports;
    trainer.run(reports);
    const auto loss_difference = [&](size_t epoch) {
      return reports.epochs.at(epoch).val.loss - reports.epochs.at(epoch).val_ema->loss;
    };
    EXPECT_NE(loss_difference(0), 0.0);
    EXPECT_EQ(loss_difference(1), 0.0) << "switched after the second epoch";
    EXPECT_NE(loss_difference(2), 0.0);
  }
}

TEST(AveragedTraining, Refusals) {
  Recipe recipe = recipe_of(small_net());
  Trainer trainer(recipe);
  test::expect_error(ErrorKind::StateError, {"averages no weights; set ema.decay"},
                     [&] { trainer.evaluate_averaged(); });
  test::expect_error(ErrorKind::StateError, {"averages no weights; set ema.decay"},
                     [&] { trainer.ema_state_dict(); });
  test::expect_error(ErrorKind::ValueError, {"val_base has no averaged step"}, [&] {
    trainer.context().capture(Variant::VAL_BASE, InputBuffer::A, StepKind::AVERAGED);
  });
  test::expect_error(ErrorKind::ValueError, {"train_base has no micro-batch step"}, [&] {
    trainer.context().capture(Variant::TRAIN_BASE, InputBuffer::A, StepKind::MICRO_BATCH);
  });
  recipe.ema.switch_epochs = 2;
  test::expect_error(ErrorKind::RecipeError, {"'ema.switch_epochs' is 2, but 'ema.decay' is 0"},
                     [&] { check_recipe(recipe); });
  recipe.ema.decay = 1.0;
  test::expect_error(ErrorKind::RecipeError, {"'ema.decay'"}, [&] { check_recipe(recipe); });
  recipe.ema = {};
  recipe.train.accumulate = 0;
  test::expect_error(ErrorKind::RecipeError, {"'train.accumulate' is 0, expected at least 1"},
                     [&] { check_recipe(recipe); });
}

// ---- Gradient accumulation.

/// A residual network with batch norm; groups end with fewer micro-batches, the last of them smaller.
TEST(Accumulation, MicroBatchesLikeTorch) {
  const nlohmann::json want = load_reference("accumulation.json");
  const Shape whole(6, 8, 8, 3), rest(4, 8, 8, 3);
  Recipe recipe;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = want["learning_rate"];
  recipe.optimizer.momentum = want["momentum"];
  recipe.optimizer.weight_decay = want["weight_decay"];
  CompileRequest request = test::session_request(test::residual_net(), whole, 5, recipe);
  request.inputs[static_cast<size_t>(Variant::TRAIN_LAST)] = rest;
  request.config.accumulates = true;
  Session session(compiled(request), recipe);
  uint32_t stream = want["parameter_stream"];
  for (const std::string name : want["parameters"]) {
    const Parameter& parameter = session.parameter(name);
    std::vector<float> values(static_cast<size_t>(parameter.spec.shape.numel()));
    fill(values, stream++, want["parameter_scale"], parameter.spec.init == InitKind::ONES ? 1.0 : 0.0);
    session.write(parameter.tensors.master, values);
  }
  Context& context = session.context();
  const auto micro = context.capture(Variant::TRAIN_BASE, InputBuffer::A, StepKind::MICRO_BATCH);
  const auto update = context.capture(Variant::TRAIN_BASE, InputBuffer::A);
  const auto last_update = context.capture(Variant::TRAIN_LAST, InputBuffer::A);
  int32_t number = 0;
  for (size_t g = 0; g < want["groups"].size(); ++g) {
    const std::vector<int64_t> group = want["groups"][g];
    for (size_t m = 0; m < group.size(); ++m) {
      put_batch(session, InputBuffer::A, group[m] == 6 ? whole : rest,
                want["input_stream"].get<uint32_t>() + static_cast<uint32_t>(number), want["input_scale"],
                number, 5);
      (m + 1 < group.size() ? micro : group[m] == 6 ? update : last_update)->launch();
      const double loss = want["losses"][static_cast<size_t>(number)];
      EXPECT_NEAR(session.number(LOSS), loss, 1e-4 * loss) << "micro-batch " << number;
      ++number;
    }
    EXPECT_EQ(session.counter(STEP), static_cast<int32_t>(g) + 1);
    EXPECT_EQ(session.counter(ACCUMULATED_SAMPLES), 0);
    for (const auto& [name, reference] : want["gradients"][g].items())
      EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.grad), recorded(reference), 1e-4))
          << name << " update " << g;
  }
  for (const auto& [name, reference] : want["final_parameters"].items())
    EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.master), recorded(reference), 1e-4))
        << name;
  for (const auto& [name, reference] : want["final_running_stats"].items())
    EXPECT_TRUE(matches(session.read(session.id(name)), recorded(reference), 1e-4)) << name;
}

/// 58 samples: updates of 12, …, 12 and 10, however many micro-batches and ranks share them. The schedule
/// counts updates, and so do momentum, step and averages.
TEST(Accumulation, SmallBatchesMakeTheStepsOfALargeOne) {
  Recipe recipe = recipe_of(plain_net());
  recipe.ema = {0.8, true, 0};
  Trainer large(recipe);
  Reports reports;
  large.run(reports);
  EXPECT_EQ(reports.epochs.back().steps, 2 * 5);
  for (const auto& [batch, ranks] : {std::pair{4, 1}, {6, 1}, {2, 2}}) {
    Recipe small = recipe;
    small.train.batch_size = batch;
    small.ranks = ranks;
    small.train.accumulate = 12 / (batch * ranks);
    Trainer trainer(small);
    Reports others;
    trainer.run(others);
    expect_near(trainer.state_dict(), large.state_dict(), 1e-6);
    expect_near(trainer.ema_state_dict(), large.ema_state_dict(), 1e-6);
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      const EpochReport &got = others.epochs.at(epoch), &want = reports.epochs.at(epoch);
      EXPECT_EQ(got.steps, want.steps);
      EXPECT_EQ(got.learning_rate, want.learning_rate);
      EXPECT_EQ(got.train.samples, want.train.samples);
      EXPECT_EQ(got.train.top1, want.train.top1);
      EXPECT_NEAR(got.train.loss, want.train.loss, 1e-5);
    }
  }
}

/// Stops after so many steps.
struct StopAfter : Observer {
  explicit StopAfter(int64_t most) : left(most) {}
  bool should_stop() override { return --left <= 0; }
  int64_t left;
};

/// Stopped between two micro-batches of one update, and in the evaluation after a switch.
TEST(Accumulation, ResumesInTheMiddleOfAnUpdate) {
  Recipe recipe = recipe_of(small_net());
  recipe.train.accumulate = 3;
  recipe.ema = {0.8, true, 1};
  Trainer whole(recipe);
  Reports reports;
  whole.run(reports);
  for (const int64_t steps : {2, 6, 7}) {  // 5 steps of training, 2 and 2 of evaluation
    Trainer first(recipe);
    StopAfter stop(steps);
    EXPECT_TRUE(first.run(stop).interrupted);
    Trainer second(recipe);
    second.resume(first.checkpoint(), "checkpoint");
    Reports rest;
    second.run(rest);
    expect_same(second.state_dict(), whole.state_dict());
    expect_same(second.ema_state_dict(), whole.ema_state_dict());
    expect_same(*rest.epochs.back().val_ema, *reports.epochs.back().val_ema);
  }
}

/// More micro-batches than an epoch has: one update an epoch.
TEST(Accumulation, AnEpochEndsWithAnUpdate) {
  Recipe recipe = recipe_of(small_net());
  recipe.train.accumulate = 100;
  Trainer trainer(recipe);
  Reports reports;
  trainer.run(reports);
  EXPECT_EQ(reports.epochs.at(0).steps, 1);
  EXPECT_EQ(reports.epochs.at(1).steps, 2);
}

class AccumulatedOverflow : public testing::TestWithParam<int> {};

/// A micro-batch that is not finite makes its update one that changes nothing; nothing of it is left in the
/// next one. Batch norm keeps the statistics of the finite micro-batches before it.
TEST_P(AccumulatedOverflow, LeavesNothingBehind) {
  const int broken = GetParam();
  const Shape input(4, 6, 6, 3);
  Recipe recipe;
  recipe.optimizer.kind = OptimizerKind::MOMENTUM;
  CompileRequest request = test::session_request(
      seq(conv(4, 3, 1, 1), named("bn", bn()), relu(), gap(), flatten(), fc(3)), input, 3, recipe);
  request.config.accumulates = true;
  Session session(compiled(request), recipe);
  Context& context = session.context();
  const auto micro = context.capture(Variant::TRAIN_BASE, InputBuffer::A, StepKind::MICRO_BATCH);
  const auto update = context.capture(Variant::TRAIN_BASE, InputBuffer::A);
  const auto run = [&](int bad) {
    for (int m = 0; m < 2; ++m) {
      put_batch(session, InputBuffer::A, input, 50 + static_cast<uint32_t>(m), 1.0, m, 3);
      if (m == bad)
        reinterpret_cast<float*>(context.input(0, InputBuffer::A).data)[7] =
            std::numeric_limits<float>::infinity();
      (m == 0 ? micro : update)->launch();
    }
  };
  const auto weights = [&] { return session.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV); };
  const auto moments = [&] { return session.bytes(Region::M_BN_BIAS, Region::M_DEEP_CONV); };
  run(-1);
  const auto weights_before = weights(), moments_before = moments();
  run(broken);
  EXPECT_EQ(session.counter(SKIPPED_STEPS), 1);
  EXPECT_EQ(session.counter(STEP), 1);
  EXPECT_TRUE(weights() == weights_before);
  EXPECT_TRUE(moments() == moments_before);
  for (const char* name : {"bn.running_mean", "bn.running_var"})
    for (const float value : session.read(session.id(name))) EXPECT_TRUE(std::isfinite(value)) << name;
  run(-1);
  EXPECT_EQ(session.counter(STEP), 2);
  EXPECT_FALSE(weights() == weights_before);
  for (const float value : session.read(session.parameter("5.weight").tensors.master))
    EXPECT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(FirstOrLast, AccumulatedOverflow, testing::Values(0, 1));

/// Every micro-batch drops other elements.
TEST(Accumulation, DropoutDrawsAnewInEveryMicroBatch) {
  Recipe recipe = recipe_of(seq(flatten(), named("fc1", fc(16)), dropout(0.5), named("fc2", fc(4))));
  recipe.train.accumulate = 3;
  Trainer trainer(recipe);
  Reports reports;
  trainer.run(reports);
  int32_t draws = 0;
  trainer.context().read(0, trainer.model().plan(Variant::TRAIN_BASE).tensor(DROPOUT_COUNTER).offset, &draws,
                         sizeof draws);
  EXPECT_EQ(draws, 2 * 5);
}

}  // namespace
}  // namespace tr
