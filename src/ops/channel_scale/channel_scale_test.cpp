#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

test::OpCase case_of(const Shape& x, std::vector<bool> needs_dx = {}) {
  return {.op = "channel_scale",
          .attrs = {},
          .x = {x, Shape(x.n(), 1, 1, x.c())},
          .needs_dx = std::move(needs_dx)};
}

TEST(ChannelScale, EveryPixelIsMultipliedByItsImagesFactors) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(2, 3, 5, 7), Shape(3, 14, 9, 130)}) {
    OpRig rig(catalog, case_of(shape));
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const std::span<float> x = rig.values(Port::X, 0), factors = rig.values(Port::X, 1);
    const std::span<float> dy = rig.values(Port::DY);
    const auto channels = static_cast<size_t>(shape.c()), image = x.size() / static_cast<size_t>(shape.n());
    std::vector<double> sums(factors.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t at = i / image * channels + i % channels;
      ASSERT_EQ(rig.values(Port::Y)[i], x[i] * factors[at]) << i;
      ASSERT_EQ(rig.values(Port::DX, 0)[i], dy[i] * factors[at]) << i;
      sums[at] += double{dy[i]} * double{x[i]};
    }
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(rig.values(Port::DX, 1)[i], sums[i], 1e-5) << i;
  }
}

TEST(ChannelScale, KeepsOnlyWhatItsGradientsNeed) {
  const Catalog catalog = make_catalog();
  for (const bool first : {true, false}) {
    OpRig rig(catalog, case_of(Shape(2, 3, 3, 5), {first, !first}));
    rig.run(Pass::FORWARD);
    rig.run_backward();
    for (const Use& use : rig.spec().uses(rig.query(), Pass::BACKWARD))
      EXPECT_TRUE(use.port != Port::X || use.index == (first ? 1 : 0)) << first;
  }
  OpRig none(catalog, case_of(Shape(2, 3, 3, 5), {false, false}));
  EXPECT_TRUE(none.spec().backward_passes(none.query()).empty());
}

TEST(ChannelScale, Refusals) {
  const Catalog catalog = make_catalog();
  for (const Shape& factors : {Shape(2, 1, 1, 7), Shape(2, 4, 4, 8), Shape(1, 1, 1, 8)})
    test::expect_error(
        ErrorKind::ShapeError, {"channel_scale 'layer': factors are ", ", input [2,4,4,8] needs [2,1,1,8]"},
        [&] {
          OpRig rig(catalog, {.op = "channel_scale", .attrs = {}, .x = {Shape(2, 4, 4, 8), factors}});
        });
}

}  // namespace
}  // namespace tr
