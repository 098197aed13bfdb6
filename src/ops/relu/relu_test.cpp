#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

TEST(Relu, ClosedFormAndNaN) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "relu", .attrs = {}, .x = {Shape(1, 1, 2, 3)}, .needs_dx = {}});
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::ranges::copy(std::vector{-1.0f, 0.0f, 2.0f, -infinity, infinity, nan}, rig.values(Port::X).begin());
  for (const Pass pass : {Pass::INFERENCE, Pass::FORWARD}) {
    rig.run(pass, test::Expect::ANY);
    const std::span<float> y = rig.values(Port::Y);
    EXPECT_TRUE(std::ranges::equal(y.first(5), std::vector{0.0f, 0.0f, 2.0f, 0.0f, infinity}));
    EXPECT_TRUE(std::isnan(y[5]));
  }
  std::ranges::fill(rig.values(Port::DY), 3.0f);
  rig.run_backward();
  // PyTorch lets the gradient through where y is NaN.
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX), std::vector{0.0f, 0.0f, 3.0f, 0.0f, 3.0f, 3.0f}));
}

TEST(Relu, ManyPiecesOfOddLength) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "relu", .attrs = {}, .x = {Shape(3, 131, 67, 5)}, .needs_dx = {}});
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const std::span<float> x = rig.values(Port::X), y = rig.values(Port::Y);
  const std::span<float> dy = rig.values(Port::DY), dx = rig.values(Port::DX);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], x[i] > 0.0f ? x[i] : 0.0f) << i;
    ASSERT_EQ(dx[i], x[i] > 0.0f ? dy[i] : 0.0f) << i;
  }
}

}  // namespace
}  // namespace tr
