// Whole trainings on CUDA beside the CPU's: losses, determinism, overflow, input buffers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

#include "renaissance/core/error.h"
#include "support/cuda_pair.h"
#include "support/expect_error.h"
#include "support/session.h"
#include "support/sixteen_bits.h"

namespace tr::test {
namespace {

const Shape IMAGE(32, 12, 12, 3);
constexpr int64_t CLASSES = 5;
constexpr int STEPS = 50;

/// Trains on four batches in turn, over buffer A only.
std::vector<float> train(Session& session, int steps) {
  const auto step = session.context().capture(Variant::TRAIN_BASE, InputBuffer::A);
  std::vector<float> losses;
  for (int s = 0; s < steps; ++s) {
    const Batch batch = make_batch(session.tensor(INPUT_A_DATA).shape, CLASSES, static_cast<uint64_t>(s % 4));
    session.feed(InputBuffer::A, batch.pixels, batch.labels);
    session.context().load_input(Variant::TRAIN_BASE, InputBuffer::A);
    step->launch();
    losses.push_back(session.number(LOSS));
  }
  return losses;
}

float evaluate(Session& session) {
  const Batch batch = make_batch(IMAGE, CLASSES, 9);
  session.feed(InputBuffer::A, batch.pixels, batch.labels);
  session.context().load_input(Variant::VAL_BASE, InputBuffer::A);
  session.context().capture(Variant::VAL_BASE, InputBuffer::A)->launch();
  return session.number(LOSS);
}

class CudaTraining : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
  Session cuda_session() const {
    return Session(residual_net(), IMAGE, CLASSES, session_recipe(BackendKind::CUDA, GetParam()));
  }
};

/// Relative, at every step: FP32 differs in the order of sums, the others in what 11 and 8 bits lose.
double loss_tolerance(Precision precision) {
  return precision == Precision::FP32 ? 1e-4 : precision == Precision::FP16 ? 2e-2 : 5e-2;
}

TEST_P(CudaTraining, LossesFollowTheCpus) {
  Session cpu(residual_net(), IMAGE, CLASSES, session_recipe(BackendKind::CPU, Precision::FP32));
  Session cuda = cuda_session();
  const std::vector<float> want = train(cpu, STEPS), got = train(cuda, STEPS);
  const double tolerance = loss_tolerance(GetParam());
  for (size_t s = 0; s < want.size(); ++s)
    EXPECT_NEAR(got[s], want[s], tolerance * double{want[s]}) << "step " << s + 1;
  EXPECT_LT(want.back(), 0.75f * want.front()) << "there was something to learn";
  EXPECT_EQ(cuda.counter(STEP), STEPS);
  EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 0);
  const float evaluated = evaluate(cpu);
  EXPECT_NEAR(evaluate(cuda), evaluated, tolerance * 2.0 * double{evaluated});
}

/// Clipped LARS, and a training of which the lower half and something above it are frozen.
TEST_P(CudaTraining, ClippedAndFrozenTrainingsFollowTheCpus) {
  for (const bool frozen : {false, true}) {
    const auto make = [&](BackendKind device, Precision precision) {
      Recipe recipe = session_recipe(device, precision);
      recipe.optimizer.clip_norm = 0.5;
      recipe.optimizer.kind = frozen ? OptimizerKind::ADAMW : OptimizerKind::LARS;
      recipe.optimizer.trust_coefficient = 0.05;
      recipe.optimizer.learning_rate = frozen ? 1e-2 : 0.2;
      if (frozen) {
        recipe.train.freeze = {"conv1.*",          "bn1.*",  "layer1.*", "layer2.0.bn1.*",
                               "layer2.0.conv2.*", "fc.bias"};
        recipe.train.freeze_statistics = true;
      }
      return std::make_unique<Session>(residual_net(), IMAGE, CLASSES, recipe);
    };
    const auto cpu = make(BackendKind::CPU, Precision::FP32), cuda = make(BackendKind::CUDA, GetParam());
    const auto kept = [&] {
      std::vector<std::vector<float>> all;
      for (const Parameter& parameter : cuda->model().parameters)
        if (parameter.frozen) all.push_back(cuda->read(parameter.tensors.master));
      for (const Statistics& statistics : cuda->model().statistics)
        if (statistics.frozen) all.push_back(cuda->read(statistics.tensors.prev_var));
      return all;
    };
    const auto before = kept();
    EXPECT_EQ(before.empty(), !frozen);
    const std::vector<float> want = train(*cpu, 20), got = train(*cuda, 20);
    // Ratios of small numbers: these rules make more of what a sum's order changes.
    const double tolerance = std::max(loss_tolerance(GetParam()), 1e-3);
    for (size_t s = 0; s < want.size(); ++s)
      EXPECT_NEAR(got[s], want[s], tolerance * double{want[s]}) << "step " << s + 1;
    EXPECT_LT(want.back(), want.front());
    EXPECT_EQ(kept(), before);
    EXPECT_EQ(cuda->counter(SKIPPED_STEPS), 0);
  }
}

TEST_P(CudaTraining, TwoRunsGiveTheSameBytes) {
  std::vector<std::byte> weights[2], statistics[2];
  std::vector<float> losses[2];
  for (int run = 0; run < 2; ++run) {
    Session cuda = cuda_session();
    losses[run] = train(cuda, 12);
    weights[run] = cuda.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV);
    statistics[run] = cuda.bytes(Region::B_PREV_MEAN, Region::B_NEXT_VAR);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_TRUE(weights[0] == weights[1]);
  EXPECT_TRUE(statistics[0] == statistics[1]);
}

/// What a skipped step must leave alone.
std::vector<std::vector<std::byte>> state_of(Session& session) {
  return {session.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV),
          session.bytes(Region::M_BN_BIAS, Region::M_DEEP_CONV),
          session.bytes(Region::V_BN_BIAS, Region::V_DEEP_CONV),
          session.bytes(Region::B_PREV_MEAN, Region::B_PREV_VAR)};
}

TEST_P(CudaTraining, AnOverflowChangesNothingButTheScale) {
  const bool scales = GetParam() == Precision::FP16;
  for (const OptimizerKind optimizer : {OptimizerKind::NESTEROV, OptimizerKind::ADAM}) {
    Recipe recipe = session_recipe(BackendKind::CUDA, GetParam());
    recipe.optimizer.kind = optimizer;
    recipe.optimizer.learning_rate = 1e-3;
    Session cuda(residual_net(), IMAGE, CLASSES, recipe);
    train(cuda, 3);
    const auto before = state_of(cuda);
    const std::vector<std::byte> copies =
        is_amp(GetParam()) ? cuda.bytes(Region::A_FC_WEIGHT, Region::A_DEEP_CONV) : std::vector<std::byte>{};
    const float clean_scale = cuda.number(LOSS_SCALE);
    const float scale = scales ? 0x1p127f : std::numeric_limits<float>::infinity();
    cuda.write(LOSS_SCALE, {scale});
    train(cuda, 1);
    EXPECT_EQ(cuda.counter(NAN_FLAG), 1);
    EXPECT_EQ(cuda.counter(STEP), 3);
    EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 1);
    EXPECT_EQ(cuda.number(LOSS_SCALE), scales ? scale / 2.0f : scale);
    EXPECT_TRUE(before == state_of(cuda));
    if (is_amp(GetParam())) {
      EXPECT_TRUE(copies == cuda.bytes(Region::A_FC_WEIGHT, Region::A_DEEP_CONV));
    }
    cuda.write(LOSS_SCALE, {clean_scale});
    train(cuda, 1);
    EXPECT_EQ(cuda.counter(NAN_FLAG), 0);
    EXPECT_EQ(cuda.counter(STEP), 4);
    EXPECT_EQ(cuda.counter(SKIPPED_STEPS), 1);
    EXPECT_FALSE(before == state_of(cuda));
  }
}

/// Alternating buffers, each taken in while the other is computed on, is the same training.
TEST_P(CudaTraining, LoadingAheadGivesTheSameLosses) {
  constexpr int SOME_STEPS = 9;
  Session one = cuda_session();
  const std::vector<float> want = train(one, SOME_STEPS);

  Session two = cuda_session();
  Context& context = two.context();
  ASSERT_TRUE(context.loads_ahead());
  const std::unique_ptr<CapturedStep> steps[] = {context.capture(Variant::TRAIN_BASE, InputBuffer::A),
                                                 context.capture(Variant::TRAIN_BASE, InputBuffer::B)};
  const auto feed = [&](int s) {
    const Batch batch = make_batch(IMAGE, CLASSES, static_cast<uint64_t>(s % 4));
    two.feed(s % 2 == 0 ? InputBuffer::A : InputBuffer::B, batch.pixels, batch.labels);
  };
  feed(0);
  context.load_input(Variant::TRAIN_BASE, InputBuffer::A);
  std::vector<float> got;
  for (int s = 0; s < SOME_STEPS; ++s) {
    feed(s + 1);
    steps[s % 2]->launch();
    got.push_back(two.number(LOSS));
  }
  EXPECT_EQ(got, want);
  EXPECT_TRUE(one.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV) ==
              two.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV));
}

TEST_P(CudaTraining, TwoRanksAreRefused) {
  Recipe recipe = session_recipe(BackendKind::CUDA, GetParam());
  recipe.ranks = 2;
  refuses(ErrorKind::NotSupportedError, "rank",
          [&] { Session session(residual_net(), IMAGE, CLASSES, recipe); });
}

/// Bytes become the normalized pixels that the CPU's loader makes, channel padding zero; labels arrive.
TEST_P(CudaTraining, PixelsAreNormalizedOnTheDevice) {
  for (const Shape& shape : {Shape(3, 5, 7, 1), Shape(2, 6, 5, 3), Shape(1, 3, 3, 4), Shape(2, 1, 1, 5),
                             Shape(2, 4, 4, 17), Shape(5, 32, 32, 3)}) {
    Recipe recipe = session_recipe(BackendKind::CUDA, GetParam());
    recipe.data.mean.assign(static_cast<size_t>(shape.c()), 0.45);
    recipe.data.std.assign(static_cast<size_t>(shape.c()), 0.225);
    recipe.data.mean.back() = 0.1;
    Session cuda(seq(flatten(), fc(3)), shape, 3, recipe);
    recipe.device = BackendKind::CPU;
    recipe.precision = Precision::FP32;
    Session cpu(seq(flatten(), fc(3)), shape, 3, recipe);
    for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B}) {
      const Batch batch = make_batch(shape, 3, static_cast<uint64_t>(buffer));
      for (Session* session : {&cuda, &cpu}) {
        session->feed(buffer, batch.pixels, batch.labels);
        session->context().load_input(Variant::TRAIN_BASE, buffer);
      }
      const TensorId data = buffer == InputBuffer::A ? INPUT_A_DATA : INPUT_B_DATA,
                     labels = buffer == InputBuffer::A ? INPUT_A_LABEL : INPUT_B_LABEL;
      const DTensor& tensor = cuda.tensor(data);
      std::vector<std::byte> raw(static_cast<size_t>(tensor.data_bytes()));
      cuda.context().read(0, tensor.offset, raw.data(), tensor.data_bytes());
      const std::vector<float> want = cpu.read(data);
      const int64_t stride = tensor.strides[2];
      for (int64_t i = 0; i < tensor.physical_elements(); ++i) {
        const int64_t channel = i % stride;
        const float exact =
            channel < shape.c() ? want[static_cast<size_t>(i / stride * shape.c() + channel)] : 0.0f;
        float got;
        if (tensor.dtype == DType::FP32) {
          std::memcpy(&got, raw.data() + 4 * i, sizeof got);
        } else {
          uint16_t bits;
          std::memcpy(&bits, raw.data() + 2 * i, sizeof bits);
          got = from_16bit(bits, tensor.dtype);
        }
        ASSERT_EQ(got, rounded(exact, tensor.dtype)) << shape << " element " << i;
      }
      std::vector<int32_t> got_labels(batch.labels.size());
      cuda.context().read(0, cuda.tensor(labels).offset, got_labels.data(),
                          static_cast<int64_t>(4 * got_labels.size()));
      EXPECT_EQ(got_labels, batch.labels);
    }
  }
}

/// Logical elements of an input tensor, which 16-bit types pad.
std::vector<float> read_pixels(Session& session, TensorId id) {
  const DTensor& tensor = session.tensor(id);
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype));
  std::vector<std::byte> raw(static_cast<size_t>(tensor.data_bytes()));
  session.context().read(0, tensor.offset, raw.data(), tensor.data_bytes());
  std::vector<float> pixels;
  for (int64_t i = 0; i < tensor.physical_elements(); ++i) {
    if (i % tensor.strides[2] >= tensor.shape.c()) continue;
    float value = 0.0f;
    uint16_t bits = 0;
    std::memcpy(tensor.dtype == DType::FP32 ? static_cast<void*>(&value) : &bits,
                &raw[static_cast<size_t>(i) * size], size);
    pixels.push_back(tensor.dtype == DType::FP32 ? value : from_16bit(bits, tensor.dtype));
  }
  return pixels;
}

/// Mixed in FP32 and rounded once, as the CPU's loader does in FP32; evaluation leaves every batch alone.
TEST_P(CudaTraining, PixelsAreMixedOnTheDevice) {
  BatchMix blend, cut;
  blend.share = 0.3f;
  cut.share = 0.25f;
  cut.top = 1, cut.bottom = 4, cut.left = 2, cut.right = 5;
  for (const Shape& shape : {Shape(3, 5, 7, 1), Shape(4, 6, 5, 3), Shape(1, 5, 5, 4), Shape(5, 4, 6, 17)}) {
    Recipe recipe = session_recipe(BackendKind::CUDA, GetParam());
    recipe.data.mean = {0.45};
    recipe.data.std = {0.225};
    recipe.data.mean.resize(static_cast<size_t>(shape.c()), 0.1);
    recipe.data.std.resize(static_cast<size_t>(shape.c()), 0.3);
    recipe.augment.mixup = 1.0;
    Session cuda(seq(flatten(), fc(3)), shape, 3, recipe);
    recipe.device = BackendKind::CPU;
    recipe.precision = Precision::FP32;
    Session cpu(seq(flatten(), fc(3)), shape, 3, recipe);
    const Batch batch = make_batch(shape, 3, 1);
    const auto feed = [&](Session& session, InputBuffer buffer, Variant variant, const BatchMix& mix) {
      session.feed(buffer, batch.pixels, batch.labels, variant, mix);
      session.context().load_input(variant, buffer);
    };
    for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B})
      for (const BatchMix& mix : {blend, cut, BatchMix{}}) {
        const bool first = buffer == InputBuffer::A;
        const TensorId data = first ? INPUT_A_DATA : INPUT_B_DATA, mix_id = first ? INPUT_A_MIX : INPUT_B_MIX;
        const DType dtype = cuda.tensor(data).dtype;
        const double tolerance = dtype == DType::FP32 ? 1e-6 : tolerance_of(dtype);
        feed(cuda, buffer, Variant::TRAIN_BASE, mix);
        feed(cpu, buffer, Variant::TRAIN_BASE, mix);
        EXPECT_TRUE(close_to(read_pixels(cuda, data), cpu.read(data), tolerance)) << shape;
        BatchMix arrived;
        cuda.context().read(0, cuda.tensor(mix_id).offset, &arrived, sizeof arrived);
        EXPECT_EQ(arrived, mix);
        feed(cuda, buffer, Variant::VAL_BASE, mix);
        feed(cpu, buffer, Variant::VAL_BASE, BatchMix{});
        EXPECT_TRUE(close_to(read_pixels(cuda, data), cpu.read(data), tolerance)) << shape;
      }
  }
}

/// Steps on mixed batches follow the CPU's.
TEST_P(CudaTraining, MixedBatchesFollowTheCpu) {
  Recipe recipe = session_recipe(BackendKind::CUDA, GetParam());
  recipe.augment.mixup = 1.0;
  recipe.train.label_smoothing = 0.1;
  Session cuda(residual_net(), IMAGE, CLASSES, recipe);
  recipe.device = BackendKind::CPU;
  recipe.precision = Precision::FP32;
  Session cpu(residual_net(), IMAGE, CLASSES, recipe);
  std::vector<float> losses[2];
  for (const auto& [session, to] : {std::pair(&cuda, &losses[0]), std::pair(&cpu, &losses[1])}) {
    const auto step = session->context().capture(Variant::TRAIN_BASE, InputBuffer::A);
    for (int s = 0; s < 10; ++s) {
      const Batch batch = make_batch(IMAGE, CLASSES, static_cast<uint64_t>(s % 4));
      BatchMix mix;
      mix.share = static_cast<float>(s) / 16.0f;
      if (s % 3 == 1) mix.bottom = 6, mix.right = 6;
      session->feed(InputBuffer::A, batch.pixels, batch.labels, Variant::TRAIN_BASE, mix);
      session->context().load_input(Variant::TRAIN_BASE, InputBuffer::A);
      step->launch();
      to->push_back(session->number(LOSS));
    }
  }
  EXPECT_TRUE(close_to(losses[0], losses[1], tolerance_of(compute_dtype(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaTraining,
                         testing::Values(Precision::FP32, Precision::FP16, Precision::BF16),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

}  // namespace
}  // namespace tr::test
