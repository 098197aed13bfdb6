// Every optimizer over several tensors against recorded PyTorch: which of them decay, by how much gradients
// are clipped, what stays frozen. The learning rate falls from step to step.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "support/expect_error.h"
#include "support/reference.h"
#include "support/session.h"

namespace tr {
namespace {

using test::expect_error;
using test::fill;
using test::load_reference;
using test::Session;

const std::vector<std::string> TENSORS{"a.weight", "a.bias", "b.weight", "b.bias"};

BluePrint two_layers() { return seq(flatten(), named("a", fc(4)), named("b", fc(3))); }

Recipe recipe_of(const nlohmann::json& run) {
  Recipe recipe;
  recipe.optimizer.kind = parse_optimizer(run["kind"].get<std::string>());
  recipe.optimizer.learning_rate = run["learning_rate"];
  recipe.optimizer.momentum = run["momentum"];
  recipe.optimizer.beta1 = run["beta1"];
  recipe.optimizer.beta2 = run["beta2"];
  recipe.optimizer.epsilon = run["epsilon"];
  recipe.optimizer.weight_decay = run["weight_decay"];
  recipe.optimizer.trust_coefficient = run["trust_coefficient"];
  recipe.optimizer.decay_norm_and_bias = run["decay_norm_and_bias"];
  recipe.optimizer.decoupled_decay = run["decoupled_decay"];
  recipe.optimizer.clip_norm = run["clip_norm"];
  recipe.train.freeze = run["freeze"].get<std::vector<std::string>>();
  return recipe;
}

std::shared_ptr<const CompiledModel> compile_run(const nlohmann::json& run, const Recipe& recipe) {
  CompileRequest request = test::session_request(two_layers(), Shape(2, 1, 1, 5), 3, recipe);
  request.schedule.kind = ScheduleKind::LINEAR;
  request.schedule.total_steps = run["steps"];
  request.schedule.final_fraction = run["final_fraction"];
  return std::make_shared<const CompiledModel>(
      compile(request, std::make_shared<const Catalog>(make_catalog())));
}

std::vector<float> values_of(const Session& session, const std::string& name, uint32_t stream, double scale) {
  std::vector<float> values(static_cast<size_t>(session.parameter(name).spec.shape.numel()));
  fill(values, stream, scale);
  return values;
}

/// Those recorded, and AdamW's where what it does anyway is asked for.
std::vector<nlohmann::json> recorded_runs() {
  std::vector<nlohmann::json> runs = load_reference("updates.json");
  for (size_t i = 0, recorded = runs.size(); i < recorded; ++i)
    if (runs[i]["kind"] == "adamw") {
      nlohmann::json decoupled = runs[i];
      decoupled["decoupled_decay"] = true;
      runs.push_back(std::move(decoupled));
    }
  return runs;
}

TEST(UpdateReference, TwentyStepsOfEveryRuleLikeTorch) {
  for (const nlohmann::json& run : recorded_runs()) {
    nlohmann::json what = run;
    what.erase("weights");
    SCOPED_TRACE(what.dump());
    const Recipe recipe = recipe_of(run);
    Session session(compile_run(run, recipe), recipe);
    const auto stream = run["stream"].get<uint32_t>();
    for (uint32_t t = 0; t < TENSORS.size(); ++t)
      session.write(session.parameter(TENSORS[t]).tensors.master,
                    values_of(session, TENSORS[t], stream + t, 1.0));
    const auto update = session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                                                        {GraphId::WATCH, GraphId::OPTIMIZER});
    for (uint32_t step = 1; step <= run["steps"].get<uint32_t>(); ++step) {
      for (uint32_t t = 0; t < TENSORS.size(); ++t)
        if (!session.parameter(TENSORS[t]).frozen)
          session.write(session.parameter(TENSORS[t]).tensors.grad,
                        values_of(session, TENSORS[t], stream + 10 * step + t, 0.2 * step));
      update->launch();
      const auto shown = run["weights"].find(std::to_string(step));
      if (shown == run["weights"].end()) continue;
      for (const std::string& name : TENSORS) {
        const std::vector<float> weights = session.read(session.parameter(name).tensors.master);
        for (size_t i = 0; i < weights.size(); ++i) {
          const double want = (*shown)[name][i].get<double>();
          ASSERT_NEAR(weights[i], want, 1e-5 * std::max(1.0, std::abs(want)))
              << name << '[' << i << "] step " << step;
        }
      }
    }
  }
}

/// Frozen parameters keep every bit, and so do their moments, whatever the moments held before.
TEST(UpdateReference, FrozenParametersKeepTheirBits) {
  for (const OptimizerKind kind :
       {OptimizerKind::SGD, OptimizerKind::MOMENTUM, OptimizerKind::NESTEROV, OptimizerKind::ADAM,
        OptimizerKind::ADAMW, OptimizerKind::LARS, OptimizerKind::LARS_NESTEROV}) {
    SCOPED_TRACE(optimizer_name(kind));
    Recipe recipe;
    recipe.optimizer.kind = kind;
    recipe.optimizer.weight_decay = 0.1;
    recipe.optimizer.decay_norm_and_bias = true;
    recipe.train.freeze = {"a.weight", "b.bias"};
    Session session(two_layers(), Shape(2, 1, 1, 5), 3, recipe);
    std::vector<TensorId> kept, changed;
    for (const std::string& name : TENSORS) {
      const Parameter& parameter = session.parameter(name);
      const ParameterTensors& t = parameter.tensors;
      EXPECT_EQ(parameter.frozen, name == "a.weight" || name == "b.bias");
      for (const TensorId id : {t.master, t.first_moment, t.second_moment}) {
        if (id == NO_TENSOR) continue;
        session.write(id, values_of(session, name, static_cast<uint32_t>(id), 1.0));
        (parameter.frozen ? kept : changed).push_back(id);
      }
      if (t.norm != NO_TENSOR) (parameter.frozen ? kept : changed).push_back(t.norm);
    }
    const auto read = [&](const std::vector<TensorId>& ids) {
      std::vector<std::vector<float>> all;
      for (const TensorId id : ids) all.push_back(session.read(id));
      return all;
    };
    const auto kept_before = read(kept), changed_before = read(changed);
    session.write(session.parameter("a.bias").tensors.grad, {1.0f, 2.0f, 3.0f, 4.0f});
    session.write(session.parameter("b.weight").tensors.grad, std::vector<float>(12, 0.5f));
    session.context()
        .capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WATCH, GraphId::OPTIMIZER})
        ->launch();
    EXPECT_EQ(read(kept), kept_before);
    const auto changed_after = read(changed);
    for (size_t i = 0; i < changed.size(); ++i) EXPECT_NE(changed_after[i], changed_before[i]) << i;
  }
}

/// Gradients of two ranks are clipped after they were averaged.
TEST(ClipNorm, CountsTheMeanOverRanks) {
  Recipe recipe;
  recipe.optimizer.clip_norm = 1.0;
  recipe.optimizer.learning_rate = 1.0;
  recipe.ranks = 2;
  Session session(seq(flatten(), named("fc", fc(1, false))), Shape(1, 1, 1, 2), 1, recipe);
  const ParameterTensors& t = session.parameter("fc.weight").tensors;
  const float first[2]{6.0f, 0.0f}, second[2]{0.0f, 8.0f}, zero[2]{};
  for (int rank = 0; rank < 2; ++rank) {
    session.context().write(rank, session.tensor(t.master).offset, zero, sizeof zero);
    session.context().write(rank, session.tensor(t.grad).offset, rank == 0 ? first : second, sizeof first);
  }
  session.context()
      .capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                     {GraphId::EXCHANGE, GraphId::WATCH, GraphId::OPTIMIZER})
      ->launch();
  for (int rank = 0; rank < 2; ++rank) {  // the mean is (3, 4), of norm 5
    float weights[2];
    session.context().read(rank, session.tensor(t.master).offset, weights, sizeof weights);
    EXPECT_NEAR(weights[0], -0.6f, 1e-6f);
    EXPECT_NEAR(weights[1], -0.8f, 1e-6f);
  }
}

TEST(ClipNorm, LeavesSmallGradientsAloneAndSurvivesLargeOnes) {
  Recipe recipe;
  recipe.optimizer.clip_norm = 5.5;
  recipe.optimizer.learning_rate = 1.0;
  Session session(seq(flatten(), named("fc", fc(1, false))), Shape(1, 1, 1, 2), 1, recipe);
  const ParameterTensors& t = session.parameter("fc.weight").tensors;
  const auto update = session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                                                      {GraphId::WATCH, GraphId::OPTIMIZER});
  const auto step = [&](const std::vector<float>& gradients) {
    session.write(t.master, {0.0f, 0.0f});
    session.write(t.grad, gradients);
    update->launch();
    return session.read(t.master);
  };
  EXPECT_EQ(step({3.0f, 4.0f}), (std::vector{-3.0f, -4.0f}));
  const std::vector<float> large = step({3e30f, 4e30f});  // whose squares FP32 does not have
  EXPECT_NEAR(large[0], -3.3f, 1e-5f);
  EXPECT_NEAR(large[1], -4.4f, 1e-5f);
  EXPECT_EQ(step({3.0f, std::numeric_limits<float>::infinity()}), (std::vector{0.0f, 0.0f}));
  EXPECT_EQ(session.counter(SKIPPED_STEPS), 1);
}

/// Norms are summed in pieces that the problem decides.
TEST(Norms, TheSameBitsForEveryNumberOfThreads) {
  std::vector<std::byte> want;
  for (const int threads : {1, 2, 3}) {
    Recipe recipe;
    recipe.optimizer.kind = OptimizerKind::LARS;
    recipe.optimizer.clip_norm = 0.5;
    CompileRequest request = test::session_request(seq(flatten(), named("a", fc(300)), named("b", fc(7))),
                                                   Shape(2, 1, 1, 301), 7, recipe);
    request.target.threads = threads;
    Session session(std::make_shared<const CompiledModel>(
                        compile(request, std::make_shared<const Catalog>(make_catalog()))),
                    recipe);
    for (const Parameter& parameter : session.model().parameters)
      session.write(parameter.tensors.grad, values_of(session, parameter.name, 9, 1.0));
    const auto update = session.context().capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                                                        {GraphId::WATCH, GraphId::OPTIMIZER});
    for (int step = 0; step < 3; ++step) update->launch();
    const std::vector<std::byte> weights = session.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV);
    if (want.empty()) want = weights;
    EXPECT_TRUE(weights == want) << threads << " threads";
  }
}

TEST(TrustRatio, IsOneWhereANormIsZero) {
  Recipe recipe;
  recipe.optimizer.kind = OptimizerKind::LARS;
  recipe.optimizer.learning_rate = 1.0;
  recipe.optimizer.weight_decay = 0.5;
  recipe.optimizer.trust_coefficient = 0.1;
  recipe.optimizer.epsilon = 1e-8;
  Session session(two_layers(), Shape(2, 1, 1, 5), 3, recipe);
  const ParameterTensors &a = session.parameter("a.weight").tensors,
                         &b = session.parameter("b.weight").tensors;
  session.write(a.master, std::vector<float>(20, 0.0f));
  session.write(a.grad, std::vector<float>(20, 1.0f));
  std::vector<float> w(12, 0.0f), g(12, 0.0f);
  w[0] = 3.0f, w[5] = 4.0f, g[1] = 5.0f;
  session.write(b.master, w);
  session.write(b.grad, g);
  session.context()
      .capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WATCH, GraphId::OPTIMIZER})
      ->launch();
  EXPECT_EQ(session.read(a.norm)[0], 1.0f);
  EXPECT_NEAR(session.read(b.norm)[0], 0.1 * 5.0 / (5.0 + 0.5 * 5.0), 1e-6);
  EXPECT_EQ(session.read(a.master), std::vector<float>(20, -1.0f));
  // rate × trust × (g + decay × w)
  EXPECT_NEAR(session.read(b.master)[0], 3.0 - 0.5 / 7.5 * 0.5 * 3.0, 1e-6);
  EXPECT_NEAR(session.read(b.master)[1], -0.5 / 7.5 * 5.0, 1e-6);
}

TEST(DecoupledDecay, IsRefusedWhereTheRuleHasItsOwn) {
  for (const OptimizerKind kind : {OptimizerKind::ADAM, OptimizerKind::LARS}) {
    Recipe recipe;
    recipe.optimizer.kind = kind;
    recipe.optimizer.decoupled_decay = true;
    expect_error(ErrorKind::ValueError,
                 {cat("optimizer ", optimizer_name(kind), ": decoupled_decay is for sgd")},
                 [&] { Session session(two_layers(), Shape(2, 1, 1, 5), 3, recipe); });
  }
}

/// What a step may leave behind when its gradients are not finite: gradients, the batch's results and inputs,
/// statistics that never come into force, and the scalars that count and adapt.
bool may_change(Region region) {
  const auto within = [region](Region first, Region last) { return first <= region && region <= last; };
  return region_traits(region).transient || within(Region::G_BN_BIAS, Region::G_DEEP_CONV_FP16) ||
         within(Region::I_A_LABEL, Region::I_B_DATA) || region == Region::R_RESULT ||
         region == Region::R_RESULT_ACCUMULATED || region == Region::R_PREDICTED_LABEL ||
         within(Region::B_NEXT_MEAN, Region::B_NEXT_VAR) ||
         within(Region::S_SCALAR_FP32, Region::S_SCALAR_INT8);
}

class SkippedStepOf : public testing::TestWithParam<OptimizerKind> {};

TEST_P(SkippedStepOf, LeavesEveryRegionAsItWas) {
  Recipe recipe;
  recipe.optimizer.kind = GetParam();
  recipe.optimizer.weight_decay = 0.1;
  recipe.optimizer.clip_norm = 1.0;
  CompileRequest request = test::session_request(test::residual_net(), Shape(4, 8, 8, 3), 5, recipe);
  request.config.has_ema = true;
  request.ema.decay = 0.5;
  Session session(std::make_shared<const CompiledModel>(
                      compile(request, std::make_shared<const Catalog>(make_catalog()))),
                  recipe);
  const auto step = session.context().capture(Variant::TRAIN_BASE, InputBuffer::A);
  const auto launch = [&](float first) {
    const InputSlot slot = session.context().input(0, InputBuffer::A);
    fill({reinterpret_cast<float*>(slot.data), size_t{4 * 8 * 8 * 3}}, 7);
    reinterpret_cast<float*>(slot.data)[0] = first;
    for (int32_t i = 0; i < 4; ++i) slot.labels[i] = i;
    step->launch();
  };
  const auto regions = [&] {
    std::map<Region, std::vector<std::byte>> all;
    for (int r = 0; r < NUM_REGIONS - 1; ++r)
      if (!may_change(region_at(r))) all[region_at(r)] = session.bytes(region_at(r), region_at(r));
    return all;
  };
  const auto scalars = [&] {
    std::vector<int32_t> all;
    for (int id = LEARNING_RATE; id < SYNC_COUNTERS; ++id)
      if (id != LOSS_SCALE && id != GRADIENT_FACTOR && id != NAN_FLAG && id != CLEAN_STEPS &&
          id != SKIPPED_STEPS && id != DROPOUT_COUNTER)
        all.push_back(session.counter(static_cast<BaselineId>(id)));
    return all;
  };
  launch(0.5f);
  const auto regions_before = regions();
  const auto scalars_before = scalars();
  launch(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(session.counter(SKIPPED_STEPS), 1);
  for (const auto& [region, bytes] : regions())
    EXPECT_TRUE(bytes == regions_before.at(region)) << region_name(region);
  EXPECT_EQ(scalars(), scalars_before);
  launch(0.5f);
  for (const auto& [region, bytes] : regions())
    EXPECT_TRUE(bytes.empty() || bytes != regions_before.at(region)) << region_name(region);
  EXPECT_NE(scalars(), scalars_before);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SkippedStepOf,
                         testing::Values(OptimizerKind::SGD, OptimizerKind::MOMENTUM, OptimizerKind::NESTEROV,
                                         OptimizerKind::ADAM, OptimizerKind::ADAMW, OptimizerKind::LARS,
                                         OptimizerKind::LARS_NESTEROV),
                         [](const auto& tested) { return std::string(optimizer_name(tested.param)); });

}  // namespace
}  // namespace tr
