// Thousands of replays of a captured step on CUDA: our code allocates nothing on the host, nobody on the
// device; and a context takes what its plan says.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "allocation/counting_allocator.h"
#include "renaissance/backend/backend.h"
#include "support/cuda_rig.h"
#include "train/initialize.h"

namespace tr {
namespace {

std::unique_ptr<Context> make_mlp(int64_t batch, const std::vector<int64_t>& widths, Precision precision) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.optimizer.kind = OptimizerKind::ADAMW;
  recipe.optimizer.learning_rate = 1e-4;
  std::vector<BluePrint> layers{flatten()};
  for (const int64_t width : widths) {
    layers.push_back(fc(width));
    layers.push_back(relu());
  }
  layers.push_back(fc(10));
  CompileRequest request;
  request.model = seq(std::move(layers));
  const Shape input(batch, 28, 28, 1);
  request.inputs = {input, input, input, input, input, input};
  request.classes = 10;
  request.config.optimizer = recipe.optimizer.kind;
  request.config.precision = precision;
  request.target = default_target(BackendKind::CUDA);
  request.schedule.base = recipe.optimizer.learning_rate;
  std::unique_ptr<Context> context = make_context(std::make_shared<const CompiledModel>(
      compile(request, std::make_shared<const Catalog>(make_catalog()))));
  initialize(*context, recipe);
  if (is_amp(precision))
    context->capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
  for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B}) {
    const InputSlot slot = context->input(0, buffer);
    for (int64_t i = 0; i < input.numel(); ++i) slot.data[i] = static_cast<std::byte>(i * i % 256);
    for (int64_t i = 0; i < batch; ++i) slot.labels[i] = static_cast<int32_t>(i % 10);
  }
  return context;
}

class CudaReplay : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(CudaReplay, TenThousandStepsAllocateNothing) {
  constexpr int WARM_UP = 20, STEPS = 10'000;
  for (const Precision precision : {Precision::FP32, Precision::FP16}) {
    SCOPED_TRACE(precision_name(precision));
    const std::unique_ptr<Context> context = make_mlp(200, {256, 128}, precision);
    const std::unique_ptr<CapturedStep> steps[] = {context->capture(Variant::TRAIN_BASE, InputBuffer::A),
                                                   context->capture(Variant::TRAIN_BASE, InputBuffer::B)};
    context->load_input(Variant::TRAIN_BASE, InputBuffer::A);
    const auto replay = [&](int count) {
      for (int s = 0; s < count; ++s) {
        context->wait_input(s % 2 == 0 ? InputBuffer::B : InputBuffer::A);
        steps[s % 2]->launch();
      }
      context->synchronize();
    };
    replay(WARM_UP);
    const int64_t before = test::free_device_bytes();
    test::start_counting();
    replay(STEPS);
    const test::AllocationCounts counts = test::stop_counting();
    EXPECT_EQ(counts.ours, 0);
    EXPECT_EQ(test::free_device_bytes(), before);

    const auto read = [&]<typename T>(BaselineId id, T value) {
      context->read(0, context->model().plan(Variant::TRAIN_BASE).tensor(id).offset, &value, sizeof value);
      return value;
    };
    EXPECT_EQ(read(STEP, int32_t{0}) + read(SKIPPED_STEPS, int32_t{0}), WARM_UP + STEPS);
    EXPECT_TRUE(std::isfinite(read(LOSS, 0.0f)));
  }
}

TEST_F(CudaReplay, AContextTakesWhatItsPlanSays) {
  // Handles of libraries, and the driver's rounding of allocations.
  constexpr int64_t BESIDE_THE_PLAN = 64ll << 20;
  make_mlp(8, {16}, Precision::FP16)->synchronize();  // the driver's own context exists from here on
  const int64_t before = test::free_device_bytes();
  const std::unique_ptr<Context> context = make_mlp(256, {4096, 4096, 2048}, Precision::FP16);
  const int64_t planned = context->model().plan(Variant::TRAIN_BASE).total_bytes();
  EXPECT_GT(planned, 400ll << 20);
  EXPECT_LT(planned, 700ll << 20);
  const int64_t used = before - test::free_device_bytes();
  EXPECT_GE(used, planned);
  EXPECT_LE(used, planned + planned / 50 + BESIDE_THE_PLAN);
  // Handles are not counted there.
  EXPECT_NEAR(static_cast<double>(context->device_bytes()), static_cast<double>(planned),
              0.02 * static_cast<double>(planned));
}

}  // namespace
}  // namespace tr
