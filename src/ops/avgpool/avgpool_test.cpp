#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::expect_error;
using test::OpRig;

Attributes attributes(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

TEST(AvgPool, PaddingCountsAsZeros) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog,
            {.op = "avgpool", .attrs = attributes(2, 2, 1), .x = {Shape(1, 2, 2, 1)}, .needs_dx = {}});
  std::ranges::copy(std::vector{4.0f, 8.0f, 12.0f, 16.0f}, rig.values(Port::X).begin());
  rig.run(Pass::FORWARD);
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::Y), std::vector{1.0f, 2.0f, 3.0f, 4.0f}));
  std::ranges::copy(std::vector{1.0f, 2.0f, 3.0f, 4.0f}, rig.values(Port::DY).begin());
  rig.run_backward();
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX), std::vector{0.25f, 0.5f, 0.75f, 1.0f}));
}

TEST(AvgPool, OverlappingWindowsShareTheirGradient) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog,
            {.op = "avgpool", .attrs = attributes(3, 1, 1), .x = {Shape(2, 4, 5, 3)}, .needs_dx = {}});
  std::ranges::fill(rig.values(Port::DY), 9.0f);
  rig.run(Pass::FORWARD);
  rig.run_backward();
  for (size_t i = 0; i < rig.values(Port::DX).size(); ++i) {
    const size_t h = i / 15 % 4, w = i / 3 % 5;
    const float windows = (h == 0 || h == 3 ? 2.0f : 3.0f) * (w == 0 || w == 4 ? 2.0f : 3.0f);
    ASSERT_NEAR(rig.values(Port::DX)[i], windows, 1e-5) << i;
  }
}

TEST(AvgPool, PixelsThatNoWindowHoldsGetNoGradient) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog,
            {.op = "avgpool", .attrs = attributes(1, 2, 0), .x = {Shape(1, 3, 4, 1)}, .needs_dx = {}});
  EXPECT_EQ(rig.query().y, Shape(1, 2, 2, 1));
  std::ranges::fill(rig.values(Port::DY), 1.0f);
  rig.run(Pass::FORWARD);
  rig.run_backward();
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX),
                                 std::vector{1.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f, 0.f, 1.f, 0.f, 1.f, 0.f}));
}

TEST(AvgPool, Refusals) {
  const Catalog catalog = make_catalog();
  const auto make = [&](int64_t kernel, int64_t padding) {
    return [&catalog, kernel, padding] {
      OpRig rig(catalog, {.op = "avgpool",
                          .attrs = attributes(kernel, 0, padding),
                          .x = {Shape(1, 3, 9, 2)},
                          .needs_dx = {}});
    };
  };
  expect_error(ErrorKind::ValueError, {"avgpool 'layer': padding is 1", "half of kernel 1"}, make(1, 1));
  expect_error(ErrorKind::ShapeError, {"avgpool 'layer': kernel 4 is larger than input [1,3,9,2]"},
               make(4, 0));
  make(4, 1)();
}

}  // namespace
}  // namespace tr
