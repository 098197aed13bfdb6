// Whole trainings on the CPU in FP16 and BF16: casts, loss scale, skipped steps, determinism, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "renaissance/train/trainer.h"
#include "support/session.h"
#include "support/sixteen_bits.h"

namespace tr::test {
namespace {

const Shape IMAGE(16, 12, 12, 3);
constexpr int64_t CLASSES = 5;

Recipe recipe_for(Precision precision) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.01;
  recipe.optimizer.weight_decay = 1e-4;
  recipe.train.seed = 5;
  return recipe;
}

std::vector<float> train(Session& session, int steps) {
  const auto step = session.context().capture(Variant::TRAIN_BASE, InputBuffer::A);
  std::vector<float> losses;
  for (int s = 0; s < steps; ++s) {
    const Batch batch = make_batch(IMAGE, CLASSES, static_cast<uint64_t>(s % 4));
    session.feed(InputBuffer::A, batch.pixels, batch.labels);
    step->launch();
    losses.push_back(session.number(LOSS));
  }
  return losses;
}

void set_counter(Session& session, BaselineId id, int32_t value) {
  session.context().write(0, session.tensor(id).offset, &value, sizeof value);
}

/// What a skipped step must leave alone.
std::vector<std::vector<std::byte>> state_of(Session& session) {
  return {session.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV),
          session.bytes(Region::A_FC_WEIGHT, Region::A_DEEP_CONV),
          session.bytes(Region::M_BN_BIAS, Region::M_DEEP_CONV),
          session.bytes(Region::V_BN_BIAS, Region::V_DEEP_CONV),
          session.bytes(Region::B_PREV_MEAN, Region::B_PREV_VAR)};
}

class MixedPrecision : public testing::TestWithParam<Precision> {
 protected:
  DType dtype() const { return compute_dtype(GetParam()); }
};

TEST_P(MixedPrecision, WeightsAndGradientsHaveTheirTwins) {
  Session session(residual_net(), IMAGE, CLASSES, recipe_for(GetParam()));
  train(session, 3);
  const float scale = session.number(LOSS_SCALE);
  EXPECT_EQ(scale, GetParam() == Precision::FP16 ? 65536.0f : 1.0f);
  for (const char* name : {"conv1.weight", "layer2.0.conv2.weight", "fc.weight"}) {
    const ParameterTensors& tensors = session.parameter(name).tensors;
    ASSERT_EQ(session.tensor(tensors.compute_copy).dtype, dtype()) << name;
    const std::vector<float> w = session.read(tensors.master), a = session.read(tensors.compute_copy);
    const std::vector<float> g = session.read(tensors.grad), g16 = session.read(tensors.grad_16bit);
    for (size_t i = 0; i < w.size(); ++i) {
      EXPECT_EQ(a[i], rounded(w[i], dtype())) << name << ' ' << i;
      EXPECT_EQ(g[i], g16[i] / scale) << name << ' ' << i;
    }
  }
}

TEST_P(MixedPrecision, AnOverflowChangesNothingButTheScale) {
  const bool scales = GetParam() == Precision::FP16;
  for (const OptimizerKind optimizer : {OptimizerKind::NESTEROV, OptimizerKind::ADAM}) {
    Recipe recipe = recipe_for(GetParam());
    recipe.optimizer.kind = optimizer;
    recipe.optimizer.learning_rate = 1e-3;
    Session session(residual_net(), IMAGE, CLASSES, recipe);
    train(session, 3);
    const auto before = state_of(session);
    const float clean_scale = session.number(LOSS_SCALE);
    const float scale = scales ? 0x1p127f : std::numeric_limits<float>::infinity();
    session.write(LOSS_SCALE, {scale});
    train(session, 1);
    EXPECT_EQ(session.counter(NAN_FLAG), 1);
    EXPECT_EQ(session.counter(STEP), 3);
    EXPECT_EQ(session.counter(SKIPPED_STEPS), 1);
    EXPECT_EQ(session.number(LOSS_SCALE), scales ? scale / 2.0f : scale);
    EXPECT_TRUE(before == state_of(session));
    session.write(LOSS_SCALE, {clean_scale});
    train(session, 1);
    EXPECT_EQ(session.counter(NAN_FLAG), 0);
    EXPECT_EQ(session.counter(STEP), 4);
    EXPECT_FALSE(before == state_of(session));
  }
}

TEST(LossScale, GrowsAfterCleanStepsAndTheUpdateStaysTheSame) {
  const auto weights_after = [](float scale) {
    Session session(residual_net(), IMAGE, CLASSES, recipe_for(Precision::FP16));
    session.write(LOSS_SCALE, {scale});
    set_counter(session, CLEAN_STEPS, 1999);
    train(session, 1);
    EXPECT_EQ(session.number(LOSS_SCALE), 2.0f * scale);
    EXPECT_EQ(session.counter(CLEAN_STEPS), 0);
    EXPECT_EQ(session.counter(SKIPPED_STEPS), 0);
    return session.read(session.parameter("fc.weight").tensors.master);
  };
  // A power of two moves no digit, where nothing is subnormal.
  EXPECT_EQ(weights_after(4096.0f), weights_after(8192.0f));
}

TEST_P(MixedPrecision, TheSameBitsEachTimeOnOneRankAndOnTwo) {
  for (const int ranks : {1, 2}) {
    std::vector<float> losses[2];
    std::vector<std::vector<std::byte>> state[2];
    for (int run = 0; run < 2; ++run) {
      Recipe recipe = recipe_for(GetParam());
      recipe.ranks = ranks;
      Session session(residual_net(), IMAGE, CLASSES, recipe);
      for (int rank = 1; rank < ranks; ++rank) {
        const InputSlot slot = session.context().input(rank, InputBuffer::A);
        const std::vector<float> pixels(static_cast<size_t>(IMAGE.numel()), 0.25f);
        put_pixels(slot, pixels, IMAGE.c());
        std::fill_n(slot.labels, IMAGE.n(), 2);
      }
      losses[run] = train(session, 4);
      state[run] = state_of(session);
    }
    EXPECT_EQ(losses[0], losses[1]) << ranks;
    EXPECT_TRUE(state[0] == state[1]) << ranks;
  }
}

TEST_P(MixedPrecision, APlanWithoutARunIsTheRunsPlan) {
  CompileRequest request = session_request(residual_net(), IMAGE, CLASSES, recipe_for(GetParam()));
  const auto catalog = std::make_shared<const Catalog>(make_catalog());
  const CompiledModel run = compile(request, catalog);
  request.plan_only = true;
  const CompiledModel plan = compile(request, catalog);
  EXPECT_EQ(plan.plans[0].total_bytes(), run.plans[0].total_bytes());
  EXPECT_EQ(run.plans[0].tensor(INPUT_A_DATA).dtype, dtype());
  EXPECT_EQ(run.plans[0].region_info(Region::F_FEATURE_FP32).tensors, 0);
  EXPECT_GT(run.plans[0].region_info(Region::F_FEATURE_FP16).tensors, 0);
}

TEST_P(MixedPrecision, LearnsSyntheticData) {
  Recipe recipe = recipe_for(GetParam());
  recipe.name = "small";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 4;
  recipe.data.train_samples = 203;
  recipe.data.val_samples = 45;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 12;
  recipe.augment.crop_padding = 2;
  recipe.model.layers = seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), conv(16, 3, 2, 1),
                            relu(), dropout(0.25), gap(), flatten(), fc(4));
  recipe.optimizer.learning_rate = 0.05;
  recipe.optimizer.weight_decay = 1e-3;
  recipe.schedule.kind = ScheduleKind::COSINE;
  recipe.train.epochs = 8;
  recipe.train.batch_size = 16;
  recipe.train.seed = 11;
  Trainer trainer(recipe);
  Observer silent;
  const TrainResult result = trainer.run(silent);
  EXPECT_GT(result.val.top1, 0.9);
  EXPECT_EQ(result.val.samples, 45);
}

INSTANTIATE_TEST_SUITE_P(Cpu, MixedPrecision, testing::Values(Precision::FP16, Precision::BF16),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

}  // namespace
}  // namespace tr::test
