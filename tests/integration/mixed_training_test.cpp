// Batches with mixed samples: steps against recorded PyTorch, whole trainings on every number of loaders.
#include <gtest/gtest.h>

#include "data/mix.h"
#include "renaissance/train/trainer.h"
#include "support/reference.h"
#include "support/session.h"

namespace tr {
namespace {

using test::load_reference;
using test::matches;
using test::recorded;

BatchMix mix_of(const nlohmann::json& json) {
  BatchMix mix;
  mix.share = json["share"];
  mix.top = json["box"][0];
  mix.left = json["box"][1];
  mix.bottom = json["box"][2];
  mix.right = json["box"][3];
  return mix;
}

/// The network and batches of residual_training.json.
TEST(MixedTraining, LossGradientsAndWeightsFollowTorchForTwentySteps) {
  const nlohmann::json net = load_reference("residual_training.json"),
                       want = load_reference("mixed_training.json");
  const Shape input(net["batch"], net["height"], net["width"], net["channels"]);
  Recipe recipe;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = net["optimizer"]["learning_rate"];
  recipe.optimizer.momentum = net["optimizer"]["momentum"];
  recipe.optimizer.weight_decay = net["optimizer"]["weight_decay"];
  recipe.train.label_smoothing = net["label_smoothing"];
  recipe.augment.mixup = 1.0;
  test::Session session(test::residual_net(), input, net["classes"], recipe);
  uint32_t stream = net["parameter_stream"];
  for (const auto& parameter : net["parameters"]) {
    const Parameter& ours = session.parameter(parameter["name"]);
    std::vector<float> values(static_cast<size_t>(ours.spec.shape.numel()));
    test::fill(values, stream++, net["parameter_scale"], ours.spec.init == InitKind::ONES ? 1.0 : 0.0);
    session.write(ours.tensors.master, values);
  }
  std::vector<std::unique_ptr<CapturedStep>> steps;
  for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B})
    steps.push_back(session.context().capture(Variant::TRAIN_BASE, buffer));

  for (size_t s = 1; s <= want["losses"].size(); ++s) {
    const size_t batch = s % 2;
    const InputSlot slot = session.context().input(0, batch == 0 ? InputBuffer::A : InputBuffer::B);
    test::fill({reinterpret_cast<float*>(slot.data), static_cast<size_t>(input.numel())},
               net["input_stream"].get<uint32_t>() + static_cast<uint32_t>(batch), net["input_scale"]);
    for (int32_t i = 0; i < input.n(); ++i) slot.labels[i] = (3 * i + static_cast<int32_t>(batch)) % 5;
    *slot.mix = mix_of(want["mixes"][s - 1]);
    const PixelBatch pixels{slot.data, DType::FP32, input.n(), input.h(), input.w(), input.c()};
    mix_pixels(*slot.mix, pixels, 0, pixels.pairs());
    steps[batch]->launch();

    const double loss = want["losses"][s - 1];
    EXPECT_NEAR(session.number(LOSS), loss, 1e-4 * loss) << "step " << s;
    const auto gradients = want["gradients"].find(std::to_string(s));
    if (gradients == want["gradients"].end()) continue;
    for (const auto& [name, reference] : gradients->items())
      EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.grad), recorded(reference),
                          s == 1 ? 1e-4 : 1e-3))
          << name << " step " << s;
  }
  for (const auto& [name, reference] : want["final_parameters"].items())
    EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.master), recorded(reference), 1e-4))
        << name;
}

Recipe small_recipe() {
  Recipe recipe;
  recipe.name = "mixed";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = 4;
  recipe.data.train_samples = 149;  // 9 batches of 16 and one of 5
  recipe.data.val_samples = 45;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 12;
  recipe.model.layers =
      seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), gap(), flatten(), fc(4));
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.05;
  recipe.schedule.kind = ScheduleKind::ONE_CYCLE;
  recipe.train.epochs = 2;
  recipe.train.batch_size = 16;
  recipe.train.seed = 11;
  return recipe;
}

AugmentRecipe everything() {
  AugmentRecipe augment;
  augment.crop_padding = 2;
  augment.horizontal_flip = true;
  augment.random_erasing = 0.5;
  augment.mixup = 0.4;
  augment.cutmix = 1.0;
  return augment;
}

StateDict train(const Recipe& recipe, TrainResult* result = nullptr) {
  Trainer trainer(recipe);
  Observer silent;
  const TrainResult finished = trainer.run(silent);
  if (result != nullptr) *result = finished;
  return trainer.state_dict();
}

bool same_bytes(const StateDict& a, const StateDict& b) {
  return std::ranges::equal(a.tensors, b.tensors, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.data == y.second.data;
  });
}

TEST(MixedTraining, SameBytesWhateverTheNumberOfLoaders) {
  Recipe recipe = small_recipe();
  recipe.augment = everything();
  for (const int ranks : {1, 2}) {
    recipe.ranks = ranks;
    recipe.data.workers = 1;
    const StateDict one = train(recipe);
    for (const int64_t workers : {2, 4}) {
      recipe.data.workers = workers;
      EXPECT_TRUE(same_bytes(one, train(recipe))) << ranks << " ranks, " << workers << " loaders";
    }
    recipe.train.seed += 1;
    EXPECT_FALSE(same_bytes(one, train(recipe)));
  }
}

/// Being able to mix changes nothing while no batch is mixed.
TEST(MixedTraining, BatchesThatAreNotMixedTrainToTheSameBits) {
  Recipe recipe = small_recipe();
  const StateDict plain = train(recipe);
  recipe.augment.mixup = recipe.augment.cutmix = 1.0;
  recipe.augment.mix_probability = 0.0;
  EXPECT_TRUE(same_bytes(plain, train(recipe)));
  recipe.augment.mix_probability = 1.0;
  EXPECT_FALSE(same_bytes(plain, train(recipe)));
}

TEST(MixedTraining, LearnsInEveryPrecisionAndEvaluatesWholeImages) {
  for (const Precision precision : {Precision::FP32, Precision::BF16}) {
    Recipe recipe = small_recipe();
    recipe.augment = everything();
    recipe.augment.horizontal_flip = false;
    recipe.precision = precision;
    recipe.train.epochs = 25;
    TrainResult result;
    train(recipe, &result);
    EXPECT_GT(result.val.top1, 0.8) << precision_name(precision);
  }
}

/// One sample is its own partner: mixing it changes its pixels by rounding at most.
TEST(MixedTraining, ABatchOfOneMixesWithItself) {
  Recipe recipe = small_recipe();
  recipe.model.layers = seq(flatten(), fc(4));
  recipe.data.train_samples = 7;
  recipe.train.batch_size = 1;
  recipe.schedule.kind = ScheduleKind::CONSTANT;
  const StateDict plain = train(recipe);
  recipe.augment.mixup = recipe.augment.cutmix = 1.0;
  const StateDict mixed = train(recipe);
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    const auto& [a, b] = std::pair(plain.tensors[i].second.data, mixed.tensors[i].second.data);
    for (size_t k = 0; k < a.size() / sizeof(float); ++k)
      EXPECT_NEAR(reinterpret_cast<const float*>(a.data())[k], reinterpret_cast<const float*>(b.data())[k],
                  1e-5);
  }
}

}  // namespace
}  // namespace tr
