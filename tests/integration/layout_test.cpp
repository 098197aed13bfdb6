// Where tensors lie changes nothing: the same bits with bytes of their own, shared, overwritten when dead,
// and with feature maps computed twice.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <tuple>

#include "renaissance/graph/plan_report.h"
#include "support/layout_training.h"

namespace tr::test {
namespace {

Recipe recipe_for(Layout layout, int ranks = 1, Precision precision = Precision::FP32) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.layout = layout;
  recipe.ranks = ranks;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.05;
  recipe.optimizer.weight_decay = 1e-3;
  recipe.train.seed = 3;
  return recipe;
}

TrainingTrace train(const LayoutCase& c, const Recipe& recipe, bool poison) {
  Session session(std::make_shared<const CompiledModel>(compile_layout(layout_request(c, recipe))), recipe,
                  {.poison_dead_bytes = poison});
  return trace_training(session);
}

void expect_same(const TrainingTrace& got, const TrainingTrace& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.top1, want.top1);
  EXPECT_EQ(got.predictions, want.predictions);
  EXPECT_TRUE(got.parameters == want.parameters);
  EXPECT_TRUE(got.moments == want.moments);
  EXPECT_EQ(got.sums, want.sums);
  EXPECT_TRUE(got.statistics == want.statistics);
}

class LayoutTraining : public testing::TestWithParam<std::tuple<LayoutCase, Precision>> {};

TEST_P(LayoutTraining, GivesTheSameBits) {
  const auto& [tested, precision] = GetParam();
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(cat(ranks, " ranks"));
    const auto recipe = [&](Layout layout) { return recipe_for(layout, ranks, precision); };
    const TrainingTrace want = train(tested, recipe(Layout::LINEAR), false);
    EXPECT_TRUE(std::ranges::all_of(want.losses, [](float loss) { return std::isfinite(loss); }));
    EXPECT_NE(want.losses[0], want.losses[5]);
    expect_same(train(tested, recipe(Layout::LINEAR), true), want);
    expect_same(train(tested, recipe(Layout::PACKED), false), want);
    expect_same(train(tested, recipe(Layout::PACKED), true), want);
    for (const Recompute recompute : {Recompute::CHEAP, Recompute::AUTO}) {
      Recipe recomputing = recipe(Layout::PACKED);
      recomputing.recompute = recompute;
      expect_same(train(tested, recomputing, true), want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LayoutTraining,
                         testing::Combine(testing::ValuesIn(layout_cases()),
                                          testing::Values(Precision::FP32, Precision::BF16)),
                         [](const auto& tested) {
                           return cat(std::get<0>(tested.param).name, '_',
                                      precision_name(std::get<1>(tested.param)));
                         });

/// The gradients of one step.
std::vector<std::byte> gradients(std::shared_ptr<const CompiledModel> model, const Recipe& recipe) {
  Session session(std::move(model), recipe, {.poison_dead_bytes = true});
  const Shape input = session.tensor(INPUT_A_DATA).shape;
  const Batch batch = make_batch(input, session.model().request.classes, 0);
  session.feed(InputBuffer::A, batch.pixels, batch.labels);
  session.context().capture(Variant::TRAIN_BASE, InputBuffer::A)->launch();
  return session.bytes(Region::G_BN_BIAS, Region::G_DEEP_CONV);
}

/// Were the bytes of a feature map given away a node too early, the trainings above would say so.
TEST(Poison, ShowsThatATensorIsReadAfterItsLastNode) {
  const Recipe recipe = recipe_for(Layout::PACKED);
  for (const LayoutCase& c : layout_cases()) {
    const auto whole = std::make_shared<const CompiledModel>(compile_layout(layout_request(c, recipe)));
    const std::vector<std::byte> want = gradients(whole, recipe);
    int cut_short = 0;
    for (const DTensor& tensor : whole->plans[0].tensors()) {
      const Lifetime& life = whole->uses[static_cast<size_t>(tensor.id)].in(Program::TRAIN);
      if (tensor.region != Region::F_FEATURE_FP32 || life.last == life.first) continue;
      ++cut_short;
      auto cut = std::make_shared<CompiledModel>(*whole);
      cut->uses[static_cast<size_t>(tensor.id)].in(Program::TRAIN).last = life.last - 1;
      EXPECT_FALSE(gradients(cut, recipe) == want)
          << c.name << ' ' << whole->tensor_names[static_cast<size_t>(tensor.id)];
    }
    EXPECT_GT(cut_short, 2) << c.name;
  }
}

/// Scratch of CPU kernels depends on the target's number of threads, on nobody else's.
TEST(CpuPlan, DoesNotDependOnTheCallersThreads) {
  const int before = omp_get_max_threads();
  for (const LayoutCase& c : layout_cases()) {
    CompileRequest request = layout_request(c, recipe_for(Layout::PACKED));
    request.target.threads = 3;
    omp_set_num_threads(1);
    const std::string one = plan_json(compile_layout(request));
    omp_set_num_threads(7);
    EXPECT_EQ(plan_json(compile_layout(request)), one) << c.name;
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace tr::test
