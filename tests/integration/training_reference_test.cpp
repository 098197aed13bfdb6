// Whole steps against recorded PyTorch: a residual network.
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "support/reference.h"
#include "support/session.h"

namespace tr {
namespace {

using test::fill;
using test::load_reference;
using test::matches;
using test::recorded;
using test::residual_net;
using test::Session;

/// Relative, at every step: FP32 differs in the order of sums; of 16-bit features and weights 11 or 8 bits
/// are left.
double loss_tolerance(Precision precision) {
  return precision == Precision::FP32 ? 1e-4 : precision == Precision::FP16 ? 1e-2 : 3e-2;
}

class ResidualTraining : public testing::TestWithParam<std::tuple<bool, Precision>> {};

TEST_P(ResidualTraining, LossGradientsAndWeightsFollowTorchForTwentySteps) {
  const auto [fused, precision] = GetParam();
  // One value that rounds across zero under a ReLU changes a gradient of this small network by percents.
  const bool exact = precision == Precision::FP32;
  const nlohmann::json want = load_reference("residual_training.json");
  const Shape input(want["batch"], want["height"], want["width"], want["channels"]);
  Recipe recipe;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = want["optimizer"]["learning_rate"];
  recipe.optimizer.momentum = want["optimizer"]["momentum"];
  recipe.optimizer.weight_decay = want["optimizer"]["weight_decay"];
  recipe.train.label_smoothing = want["label_smoothing"];
  recipe.precision = precision;
  Session session(residual_net(), input, want["classes"], recipe, fused);

  uint32_t stream = want["parameter_stream"];
  for (const auto& parameter : want["parameters"]) {
    const std::string name = parameter["name"];
    const Parameter& ours = session.parameter(name);
    std::vector<float> values(static_cast<size_t>(ours.spec.shape.numel()));
    fill(values, stream++, want["parameter_scale"], ours.spec.init == InitKind::ONES ? 1.0 : 0.0);
    session.write(ours.tensors.master, values);
  }
  if (is_amp(precision))
    session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
  const auto feed = [&](int64_t batch) {
    const InputSlot slot = session.context().input(0, InputBuffer::A);
    std::vector<float> pixels(static_cast<size_t>(input.numel()));
    fill(pixels, want["input_stream"].get<uint32_t>() + static_cast<uint32_t>(batch), want["input_scale"]);
    put_pixels(slot, pixels, input.c());
    for (int64_t i = 0; i < input.n(); ++i) slot.labels[i] = static_cast<int32_t>((3 * i + batch) % 5);
  };

  const auto step = session.context().capture(Variant::TRAIN_BASE, InputBuffer::A);
  for (size_t s = 1; s <= want["steps"].get<size_t>(); ++s) {
    feed(static_cast<int64_t>(s % 2));
    step->launch();
    const double loss = want["losses"][s - 1];
    EXPECT_NEAR(session.read(LOSS)[0], loss, loss_tolerance(precision) * loss) << "step " << s;
    const auto gradients = want["gradients"].find(std::to_string(s));
    if (gradients == want["gradients"].end() || !exact) continue;
    for (const auto& [name, reference] : gradients->items())
      EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.grad), recorded(reference),
                          s == 1 ? 1e-4 : 1e-3))
          << name << " step " << s;
  }
  if (exact) {
    for (const auto& [name, reference] : want["final_parameters"].items())
      EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.master), recorded(reference), 1e-4))
          << name;
    for (const auto& [name, reference] : want["final_running_stats"].items())
      EXPECT_TRUE(matches(session.read(session.id(name)), recorded(reference), 1e-4)) << name;
  }
  EXPECT_EQ(session.counter(SKIPPED_STEPS), 0);

  feed(1);
  session.context().capture(Variant::VAL_BASE, InputBuffer::A)->launch();
  const double evaluated = want["evaluation"]["loss"];
  EXPECT_NEAR(session.read(LOSS)[0], evaluated, exact ? 1e-3 : 0.05 * evaluated);
  if (!exact) return;
  EXPECT_TRUE(
      matches(session.read(session.id("fc.out.inference")), recorded(want["evaluation"]["logits"]), 1e-3));
}

INSTANTIATE_TEST_SUITE_P(FusedAndApart, ResidualTraining,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Precision::FP32, Precision::FP16, Precision::BF16)),
                         [](const auto& tested) {
                           return cat(precision_name(std::get<1>(tested.param)),
                                      std::get<0>(tested.param) ? "_fused" : "_apart");
                         });

}  // namespace
}  // namespace tr
