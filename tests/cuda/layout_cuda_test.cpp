// Where tensors lie changes nothing on a card either.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "support/cuda_rig.h"
#include "support/layout_training.h"

namespace tr::test {
namespace {

using Rules = std::tuple<Precision, bool>;  // and whether sums have one order

class CudaLayout : public testing::TestWithParam<Rules> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
  bool deterministic() const { return std::get<bool>(GetParam()); }

  TrainingTrace train(const LayoutCase& c, Layout layout, bool poison,
                      Recompute recompute = Recompute::AS_NEEDED) const {
    Recipe recipe;
    recipe.device = BackendKind::CUDA;
    recipe.precision = std::get<Precision>(GetParam());
    recipe.deterministic = deterministic();
    recipe.layout = layout;
    recipe.recompute = recompute;
    recipe.optimizer.kind = OptimizerKind::NESTEROV;
    recipe.optimizer.learning_rate = 0.01;
    recipe.train.seed = 3;
    Session session(std::make_shared<const CompiledModel>(compile_layout(layout_request(c, recipe))), recipe,
                    {.poison_dead_bytes = poison});
    return trace_training(session);
  }

  /// To the bit, or where the order of sums varies, nearly.
  void expect_same(const TrainingTrace& got, const TrainingTrace& want) const {
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t step = 0; step < want.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], want.losses[step], deterministic() ? 0.0f : 0.05f * want.losses[step])
          << "step " << step;
    if (!deterministic()) return;
    EXPECT_EQ(got.top1, want.top1);
    EXPECT_EQ(got.predictions, want.predictions);
    EXPECT_TRUE(got.parameters == want.parameters);
    EXPECT_TRUE(got.moments == want.moments);
    EXPECT_EQ(got.sums, want.sums);
    EXPECT_TRUE(got.statistics == want.statistics);
  }
};

TEST_P(CudaLayout, GivesTheSameBits) {
  for (const LayoutCase& c : layout_cases()) {
    SCOPED_TRACE(c.name);
    const TrainingTrace want = train(c, Layout::LINEAR, false);
    EXPECT_TRUE(std::ranges::all_of(want.losses, [](float loss) { return std::isfinite(loss); }));
    expect_same(train(c, Layout::PACKED, false), want);
    expect_same(train(c, Layout::PACKED, true), want);
    expect_same(train(c, Layout::PACKED, true, Recompute::CHEAP), want);
    expect_same(train(c, Layout::PACKED, true, Recompute::AUTO), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, CudaLayout,
                         testing::Combine(testing::Values(Precision::FP32, Precision::FP16, Precision::BF16),
                                          testing::Bool()),
                         [](const auto& tested) {
                           return std::string(precision_name(std::get<Precision>(tested.param))) +
                                  (std::get<bool>(tested.param) ? "_deterministic" : "_any_order");
                         });

}  // namespace
}  // namespace tr::test
