// Averaged weights, gradient accumulation and folded batch norm on CUDA beside the CPU's.
#include <gtest/gtest.h>

#include <limits>

#include "support/cuda_pair.h"
#include "support/session.h"

namespace tr::test {
namespace {

const Shape IMAGE(16, 12, 12, 3), REST(6, 12, 12, 3);
constexpr int64_t CLASSES = 5;

/// With averages, accumulation and folding; training ends with a smaller batch.
Session session_for(BackendKind device, Precision precision, bool folded = true) {
  const Recipe recipe = session_recipe(device, precision);
  CompileRequest request = session_request(residual_net(), IMAGE, CLASSES, recipe);
  request.inputs[static_cast<size_t>(Variant::TRAIN_LAST)] = REST;
  request.config.has_ema = request.config.accumulates = true;
  request.config.bn_folded = folded;
  request.ema = {0.9, true};
  return {std::make_shared<const CompiledModel>(
              compile(request, std::make_shared<const Catalog>(make_catalog()))),
          recipe};
}

void launch(Session& session, Variant variant, StepKind kind, uint64_t number) {
  const Batch batch =
      make_batch(session.model().request.inputs[static_cast<size_t>(variant)], CLASSES, number);
  session.feed(InputBuffer::A, batch.pixels, batch.labels, variant);
  session.context().load_input(variant, InputBuffer::A);
  session.context().capture(variant, InputBuffer::A, kind)->launch();
  session.context().synchronize();
}

/// Updates of three whole micro-batches, and of a whole and a smaller one, in turn.
std::vector<float> train(Session& session, int updates) {
  std::vector<float> losses;
  for (int u = 0; u < updates; ++u) {
    const bool ends_an_epoch = u % 2 == 1;
    for (int m = 0; m < (ends_an_epoch ? 1 : 2); ++m) {
      launch(session, Variant::TRAIN_BASE, StepKind::MICRO_BATCH, static_cast<uint64_t>(m));
      losses.push_back(session.number(LOSS));
    }
    launch(session, ends_an_epoch ? Variant::TRAIN_LAST : Variant::TRAIN_BASE, StepKind::WHOLE, 2);
    losses.push_back(session.number(LOSS));
  }
  return losses;
}

float evaluate(Session& session, bool averaged) {
  const GraphId setup = averaged ? GraphId::EVAL_SETUP_EMA : GraphId::EVAL_SETUP;
  if (!session.model().graph.part(setup).empty())
    session.context().capture_parts(Variant::VAL_BASE, InputBuffer::A, {setup})->launch();
  launch(session, Variant::VAL_BASE, averaged ? StepKind::AVERAGED : StepKind::WHOLE, 9);
  return session.number(LOSS);
}

double tolerance_for(Precision precision) {
  return precision == Precision::FP32 ? 2e-4 : precision == Precision::FP16 ? 2e-2 : 5e-2;
}

class CudaAveraging : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(CudaAveraging, TrainingFollowsTheCpus) {
  Session cpu = session_for(BackendKind::CPU, Precision::FP32),
          cuda = session_for(BackendKind::CUDA, GetParam());
  const double tolerance = tolerance_for(GetParam());
  const std::vector<float> want = train(cpu, 8), got = train(cuda, 8);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * double{want[i]}) << "micro-batch " << i;
  EXPECT_EQ(cuda.counter(STEP), 8);
  EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 0);
  EXPECT_EQ(cuda.counter(ACCUMULATED_SAMPLES), 0);
  EXPECT_EQ(cuda.counter(DROPOUT_COUNTER), cpu.counter(DROPOUT_COUNTER));
  EXPECT_NEAR(cuda.number(LOSS_SUM), cpu.number(LOSS_SUM), tolerance * double{cpu.number(LOSS_SUM)});
  ASSERT_EQ(cuda.model().parameters.size(), cpu.model().parameters.size());
  for (size_t i = 0; i < cpu.model().parameters.size(); ++i) {
    // The targets' plans number their tensors each in its own way.
    const Parameter &on_cpu = cpu.model().parameters[i], &on_cuda = cuda.model().parameters[i];
    EXPECT_TRUE(close_to(cuda.read(on_cuda.tensors.master), cpu.read(on_cpu.tensors.master), 5.0 * tolerance))
        << on_cpu.name;
    EXPECT_TRUE(close_to(cuda.read(on_cuda.tensors.ema), cpu.read(on_cpu.tensors.ema), 5.0 * tolerance))
        << on_cpu.name;
  }
  for (const bool averaged : {false, true}) {
    const double loss = evaluate(cpu, averaged);
    EXPECT_NEAR(evaluate(cuda, averaged), loss, 2.0 * tolerance * loss) << averaged;
  }
}

TEST_P(CudaAveraging, TwoRunsGiveTheSameBytes) {
  std::vector<std::byte> averages[2];
  for (auto& bytes : averages) {
    Session cuda = session_for(BackendKind::CUDA, GetParam());
    train(cuda, 4);
    bytes = cuda.bytes(Region::E_BN_BIAS, Region::E_DEEP_CONV);
  }
  EXPECT_TRUE(averages[0] == averages[1]);
}

TEST_P(CudaAveraging, FoldedEvaluationIsTheSame) {
  Session folded = session_for(BackendKind::CUDA, GetParam()),
          plain = session_for(BackendKind::CUDA, GetParam(), false);
  train(folded, 4);
  train(plain, 4);
  for (const bool averaged : {false, true}) {
    const double loss = evaluate(plain, averaged);
    EXPECT_NEAR(evaluate(folded, averaged), loss, tolerance_for(GetParam()) * loss) << averaged;
  }
}

TEST_P(CudaAveraging, SwitchingMakesTheAveragesTheWeights) {
  Session cuda = session_for(BackendKind::CUDA, GetParam());
  train(cuda, 4);
  const std::vector<std::byte> averages = cuda.bytes(Region::E_BN_BIAS, Region::E_DEEP_CONV);
  EXPECT_FALSE(cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV) == averages);
  cuda.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::EMA_SWITCH})->launch();
  EXPECT_TRUE(cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV) == averages);
  EXPECT_EQ(evaluate(cuda, true), evaluate(cuda, false));
}

/// A micro-batch that overflows skips its update, and nothing of it is left in the next one.
TEST_P(CudaAveraging, AnOverflowLeavesNothingBehind) {
  Session cuda = session_for(BackendKind::CUDA, GetParam());
  train(cuda, 2);
  const std::vector<std::byte> weights = cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV),
                               averages = cuda.bytes(Region::E_BN_BIAS, Region::E_DEEP_CONV);
  const TensorId sums = cuda.parameter("fc.weight").tensors.accumulated;
  launch(cuda, Variant::TRAIN_BASE, StepKind::MICRO_BATCH, 0);
  std::vector<float> broken = cuda.read(sums);
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  cuda.write(sums, broken);
  launch(cuda, Variant::TRAIN_BASE, StepKind::WHOLE, 1);
  EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 1);
  EXPECT_TRUE(cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV) == weights);
  EXPECT_TRUE(cuda.bytes(Region::E_BN_BIAS, Region::E_DEEP_CONV) == averages);
  train(cuda, 1);
  EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 1);
  EXPECT_FALSE(cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV) == weights);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaAveraging,
                         testing::Values(Precision::FP32, Precision::FP16, Precision::BF16),
                         [](const auto& test) { return std::string(precision_name(test.param)); });

}  // namespace
}  // namespace tr::test
