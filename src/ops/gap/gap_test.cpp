#include <gtest/gtest.h>

#include <algorithm>

#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

TEST(Gap, MeanOfEachChannel) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(3, 1, 1, 5), Shape(2, 7, 5, 1), Shape(1, 9, 4, 3), Shape(2, 70, 3, 131)}) {
    OpRig rig(catalog, {.op = "gap", .attrs = {}, .x = {shape}, .needs_dx = {}});
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const auto channels = static_cast<size_t>(shape.c()), pixels = static_cast<size_t>(shape.h() * shape.w());
    ASSERT_EQ(rig.query().y, Shape(shape.n(), 1, 1, shape.c()));
    std::vector<double> means(rig.values(Port::Y).size());
    for (size_t i = 0; i < rig.values(Port::X).size(); ++i) {
      const size_t out = i / (pixels * channels) * channels + i % channels;
      means[out] += double{rig.values(Port::X)[i]} / static_cast<double>(pixels);
      ASSERT_NEAR(rig.values(Port::DX)[i], rig.values(Port::DY)[out] / static_cast<double>(pixels), 1e-7);
    }
    for (size_t i = 0; i < means.size(); ++i) ASSERT_NEAR(rig.values(Port::Y)[i], means[i], 1e-7) << shape;
  }
}

TEST(Gap, LargeMapsLoseNoPrecision) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "gap", .attrs = {}, .x = {Shape(1, 300, 300, 1)}, .needs_dx = {}});
  std::ranges::fill(rig.values(Port::X), 0.1f);
  rig.run(Pass::INFERENCE);
  EXPECT_FLOAT_EQ(rig.values(Port::Y)[0], 0.1f);
}

}  // namespace
}  // namespace tr
