// Trainings of which a part is frozen.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/layout_training.h"
#include "support/reference.h"
#include "support/session.h"

namespace tr {
namespace {

using test::expect_error;
using test::fill;
using test::load_reference;
using test::matches;
using test::recorded;
using test::residual_net;
using test::Session;

const Shape INPUT(6, 8, 8, 3);

void feed(Session& session, int64_t batch) {
  const InputSlot slot = session.context().input(0, InputBuffer::A);
  fill({reinterpret_cast<float*>(slot.data), static_cast<size_t>(INPUT.numel())},
       2000 + static_cast<uint32_t>(batch), 4.0);
  for (int64_t i = 0; i < INPUT.n(); ++i) slot.labels[i] = static_cast<int32_t>((3 * i + batch) % 5);
}

class FrozenTraining : public testing::TestWithParam<bool> {};

TEST_P(FrozenTraining, FollowsTorchForTwentySteps) {
  for (const auto& want : load_reference("frozen_training.json")) {
    SCOPED_TRACE(cat(want["freeze"].dump(), " statistics ", want["freeze_statistics"].dump()));
    Recipe recipe;
    recipe.optimizer.kind = OptimizerKind::NESTEROV;
    recipe.optimizer.learning_rate = 0.05;
    recipe.optimizer.weight_decay = 1e-4;
    recipe.train.label_smoothing = 0.1;
    recipe.train.freeze = want["freeze"].get<std::vector<std::string>>();
    recipe.train.freeze_statistics = want["freeze_statistics"];
    Session session(residual_net(), INPUT, 5, recipe, GetParam());
    auto stream = want["parameter_stream"].get<uint32_t>();
    std::vector<TensorId> kept;
    for (const auto& name : want["parameters"]) {
      const Parameter& ours = session.parameter(name);
      std::vector<float> values(static_cast<size_t>(ours.spec.shape.numel()));
      fill(values, stream++, want["parameter_scale"], ours.spec.init == InitKind::ONES ? 1.0 : 0.0);
      session.write(ours.tensors.master, values);
      if (ours.frozen) kept.insert(kept.end(), {ours.tensors.master, ours.tensors.first_moment});
    }
    EXPECT_FALSE(kept.empty());
    for (const Statistics& statistics : session.model().statistics) {
      if (!statistics.frozen) continue;
      EXPECT_TRUE(recipe.train.freeze_statistics);
      std::vector<float> values(static_cast<size_t>(statistics.channels));
      fill(values, 77);
      session.write(statistics.tensors.prev_mean, values);
      fill(values, 78, 1.0, 1.0);
      session.write(statistics.tensors.prev_var, values);
      kept.insert(kept.end(), {statistics.tensors.prev_mean, statistics.tensors.prev_var});
    }
    const auto kept_values = [&] {
      std::vector<std::vector<float>> all;
      for (const TensorId id : kept) all.push_back(session.read(id));
      return all;
    };
    const auto before = kept_values();
    const auto step = session.context().capture(Variant::TRAIN_BASE, InputBuffer::A);
    for (size_t s = 1; s <= want["losses"].size(); ++s) {
      feed(session, static_cast<int64_t>(s % 2));
      step->launch();
      const double loss = want["losses"][s - 1];
      EXPECT_NEAR(session.number(LOSS), loss, 1e-4 * loss) << "step " << s;
    }
    EXPECT_EQ(kept_values(), before);
    for (const auto& [name, reference] : want["final_parameters"].items())
      EXPECT_TRUE(matches(session.read(session.parameter(name).tensors.master), recorded(reference), 1e-4))
          << name;
    for (const auto& [name, reference] : want["final_running_stats"].items())
      EXPECT_TRUE(matches(session.read(session.id(name)), recorded(reference), 1e-4)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(FusedAndApart, FrozenTraining, testing::Bool());

/// Of parameters that train, whatever of the others is not computed; those of frozen ones are zero.
TEST(FrozenGradients, AreZeroAndChangeNoOther) {
  const BluePrint net = seq(named("c1", conv(4, 3, 1, 1)), relu(), named("c2", conv(5, 3, 1, 1)), relu(),
                            named("c3", conv(6, 3, 1, 1)), named("bn", bn()), relu(), gap(), flatten(),
                            named("f1", fc(7)), relu(), named("f2", fc(5)));
  for (const bool fused : {true, false}) {
    const auto gradients = [&](const std::vector<std::string>& freeze) {
      Recipe recipe;
      recipe.optimizer.clip_norm = 1e9;
      recipe.train.freeze = freeze;
      auto session = std::make_unique<Session>(net, INPUT, 5, recipe, fused);
      feed(*session, 0);
      session->context().capture(Variant::TRAIN_BASE, InputBuffer::A)->launch();
      return session;
    };
    const auto whole = gradients({});
    for (const std::vector<std::string>& freeze :
         std::vector<std::vector<std::string>>{{"c2.*"},
                                               {"c2.weight", "f1.bias"},
                                               {"bn.weight"},
                                               {"bn.*", "f1.*"},
                                               {"c1.*"},
                                               {"c*"},
                                               {"*.bias"},
                                               {"c1.*", "c2.*", "c3.*", "bn.*", "f1.*"}}) {
      SCOPED_TRACE(cat(freeze[0], fused ? " fused" : ""));
      const auto part = gradients(freeze);
      for (const Parameter& parameter : part->model().parameters) {
        std::vector<float> want = whole->read(whole->parameter(parameter.name).tensors.grad);
        if (parameter.frozen) std::ranges::fill(want, 0.0f);
        EXPECT_EQ(part->read(parameter.tensors.grad), want) << parameter.name;
      }
    }
  }
}

/// What is not computed, cleared or kept changes nothing elsewhere, wherever tensors lie.
TEST(FrozenLayouts, GiveTheSameBits) {
  const test::LayoutCase net{"frozen", residual_net(), INPUT};
  for (const int ranks : {1, 3}) {
    Recipe recipe;
    recipe.ranks = ranks;
    recipe.optimizer.kind = OptimizerKind::LARS_NESTEROV;
    recipe.optimizer.weight_decay = 1e-3;
    recipe.optimizer.clip_norm = 1.0;
    recipe.train.freeze = {"conv1.*", "bn1.*", "layer1.0.bn2.weight", "layer2.0.conv1.*", "layer2.0.bn1.*"};
    recipe.train.freeze_statistics = true;
    const auto train = [&](Layout layout, Recompute recompute, bool poison) {
      recipe.layout = layout;
      recipe.recompute = recompute;
      Session session(
          std::make_shared<const CompiledModel>(test::compile_layout(test::layout_request(net, recipe))),
          recipe, {.poison_dead_bytes = poison});
      const test::TrainingTrace trace = test::trace_training(session);
      int frozen = 0;
      for (const Statistics& statistics : session.model().statistics) {
        if (!statistics.frozen) continue;
        ++frozen;
        const auto channels = static_cast<size_t>(statistics.channels);
        EXPECT_EQ(session.read(statistics.tensors.prev_mean), std::vector<float>(channels, 0.0f));
        EXPECT_EQ(session.read(statistics.tensors.prev_var), std::vector<float>(channels, 1.0f));
      }
      EXPECT_EQ(frozen, 2) << "bn1 and layer2.0.bn1";
      return trace;
    };
    const test::TrainingTrace want = train(Layout::LINEAR, Recompute::NONE, false);
    EXPECT_NE(want.losses.front(), want.losses.back());
    for (const Recompute recompute : {Recompute::NONE, Recompute::CHEAP, Recompute::AUTO}) {
      const test::TrainingTrace got = train(Layout::PACKED, recompute, true);
      EXPECT_EQ(got.losses, want.losses);
      EXPECT_TRUE(got.parameters == want.parameters);
      EXPECT_TRUE(got.moments == want.moments);
      EXPECT_TRUE(got.statistics == want.statistics);
    }
  }
}

CompileRequest plan_request(const std::vector<std::string>& freeze, BackendKind backend) {
  Recipe recipe;
  recipe.train.freeze = freeze;
  recipe.device = backend;
  CompileRequest request = test::session_request(residual_net(), INPUT, 5, recipe);
  request.plan_only = true;
  return request;
}

CompiledModel plan(const CompileRequest& request) {
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

TEST(FrozenPlan, BackwardEndsAboveTheLowestParameterThatTrains) {
  for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA}) {
    const CompiledModel whole = plan(plan_request({}, backend)),
                        head = plan(plan_request({"conv1.*", "bn1.*", "layer*"}, backend));
    for (const GraphNode& node : head.graph.part(GraphId::BACKWARD))
      EXPECT_TRUE(node.name.starts_with("fc ")) << node.name;
    EXPECT_FALSE(head.graph.part(GraphId::BACKWARD).empty());
    for (const std::string& name : head.tensor_names)
      EXPECT_TRUE(name.find(".out.grad.") == std::string::npos || name.starts_with("fc.")) << name;
    const auto zone = [](const CompiledModel& model) { return model.plans[0].image().zone_bytes; };
    // Of a network this small, CUDA's zone is one workspace.
    if (backend == BackendKind::CPU) {
      EXPECT_LT(zone(head), zone(whole) * 3 / 4) << "feature maps are not kept for a backward pass";
    }
    const auto nodes_of = [](const CompiledModel& model, const std::string& name) {
      return std::ranges::count(model.graph.part(GraphId::BACKWARD), name, &GraphNode::name);
    };
    const CompiledModel middle = plan(plan_request({"layer2.0.conv2.weight"}, backend));
    EXPECT_EQ(nodes_of(whole, "layer2.0.conv2 backward_weight"), 1);
    EXPECT_EQ(nodes_of(middle, "layer2.0.conv2 backward_weight"), 0);
    EXPECT_EQ(nodes_of(middle, "layer2.0.conv2 backward_data"), 1);
  }
}

TEST(FrozenPlan, RefusesWhatMakesNoSense) {
  const auto refused = [](const std::vector<std::string>& freeze, bool statistics,
                          const std::vector<std::string>& texts) {
    CompileRequest request = plan_request(freeze, BackendKind::CPU);
    request.freeze_statistics = statistics;
    expect_error(ErrorKind::RecipeError, texts, [&] { plan(request); });
  };
  refused({"layer1.*", "laier2.*"}, false,
          {"train.freeze: 'laier2.*' matches no parameter; did you mean 'layer2.*'?"});
  refused({"fc.weigth"}, false, {"'fc.weigth' matches no parameter; did you mean 'fc.weight'?"});
  refused({"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"}, false, {"their names are such as 'conv1.weight'"});
  refused({"*"}, false, {"train.freeze: all", "nothing is left to train"});
  refused({"fc.*"}, true, {"train.freeze_statistics: no batch norm has all its parameters frozen"});
}

}  // namespace
}  // namespace tr
