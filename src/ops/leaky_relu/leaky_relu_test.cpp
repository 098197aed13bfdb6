#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

test::OpCase case_of(double slope, const Shape& x) {
  test::OpCase c;
  c.op = "leaky_relu";
  c.attrs = {{"negative_slope", slope}};
  c.x = {x};
  return c;
}

TEST(LeakyRelu, ClosedFormAndNaN) {
  const Catalog catalog = make_catalog();
  for (const float slope : {0.5f, 0.0f, -0.5f}) {
    OpRig rig(catalog, case_of(slope, Shape(1, 1, 2, 3)));
    std::ranges::copy(std::vector{-2.0f, 0.0f, 2.0f, -1e-45f, INFINITE, NOT_A_NUMBER},
                      rig.values(Port::X).begin());
    for (const Pass pass : {Pass::INFERENCE, Pass::FORWARD}) {
      rig.run(pass, test::Expect::ANY);
      const std::span<float> y = rig.values(Port::Y);
      const std::vector<float> expected{-2.0f * slope, 0.0f, 2.0f, -1e-45f * slope, INFINITE};
      EXPECT_TRUE(std::ranges::equal(y.first(5), expected)) << slope;
      EXPECT_TRUE(std::isnan(y[5])) << slope;
    }
    std::ranges::fill(rig.values(Port::DY), 3.0f);
    rig.run_backward();
    // As in PyTorch, zero and NaN take the slope.
    const float less = 3.0f * slope;
    EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX), std::vector{less, less, 3.0f, less, 3.0f, less}))
        << slope;
  }
}

TEST(LeakyRelu, ManyPiecesOfOddLength) {
  const Catalog catalog = make_catalog();
  for (const float slope : {0.25f, -0.25f}) {
    OpRig rig(catalog, case_of(slope, Shape(3, 131, 67, 5)));
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const std::span<float> x = rig.values(Port::X), y = rig.values(Port::Y);
    const std::span<float> dy = rig.values(Port::DY), dx = rig.values(Port::DX);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i] > 0.0f ? x[i] : slope * x[i]) << i;
      ASSERT_EQ(dx[i], x[i] > 0.0f ? dy[i] : slope * dy[i]) << i;
    }
  }
}

TEST(LeakyRelu, BackwardKeepsYUnlessItsSignIsLost) {
  const Catalog catalog = make_catalog();
  for (const double slope : {0.01, 0.0, -0.01}) {
    OpRig rig(catalog, case_of(slope, Shape(1, 1, 1, 3)));
    EXPECT_EQ(rig.spec().uses(rig.query(), Pass::BACKWARD)[0].port, slope < 0.0 ? Port::X : Port::Y) << slope;
  }
}

TEST(LeakyRelu, DefaultOffersAndRefusals) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "leaky_relu", .attrs = {}, .x = {Shape(1, 1, 1, 3)}, .needs_dx = {false}});
  EXPECT_EQ(rig.query().attrs.number("negative_slope"), 0.01);
  EXPECT_TRUE(rig.spec().backward_passes(rig.query()).empty());

  OpQuery query = rig.query();
  query.dtype = DType::BF16;
  EXPECT_TRUE(catalog.offer(catalog.find("leaky_relu"), query, Pass::FORWARD).supported());
  query.target.backend = BackendKind::CUDA;
  const Offer cuda = catalog.offer(catalog.find("leaky_relu"), query, Pass::FORWARD);
  EXPECT_TRUE(cuda.supported());
  EXPECT_EQ(cuda.workspace_bytes, 0);

  for (const float slope : {INFINITE, -INFINITE, NOT_A_NUMBER})
    test::expect_error(ErrorKind::ValueError,
                       {"leaky_relu 'layer': negative_slope is", "it must be finite in fp32"},
                       [&] { OpRig refused(catalog, case_of(slope, Shape(1, 1, 1, 3))); });
}

}  // namespace
}  // namespace tr
