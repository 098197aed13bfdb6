#include "ops/adaptive_avgpool/adaptive_avgpool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

test::OpCase case_of(const Shape& x, int64_t size) {
  return {.op = "adaptive_avgpool", .attrs = {{"size", size}}, .x = {x}};
}

TEST(AdaptiveAvgPool, WindowsCoverTheMapAndAgreeBothWays) {
  for (int64_t size = 1; size <= 12; ++size)
    for (int64_t outputs = 1; outputs <= 12; ++outputs) {
      const AdaptiveAxis axis(size, outputs);
      EXPECT_EQ(axis.first_input(0), 0);
      EXPECT_EQ(axis.end_input(outputs - 1), size);
      for (int64_t i = 0; i < size; ++i)
        for (int64_t o = 0; o < outputs; ++o) {
          const bool holds = axis.first_input(o) <= i && i < axis.end_input(o);
          EXPECT_EQ(holds, axis.first_output(i) <= o && o < axis.end_output(i))
              << size << " to " << outputs << ": " << i << ' ' << o;
        }
    }
}

TEST(AdaptiveAvgPool, OverlappingWindows) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(Shape(1, 1, 3, 1), 2));
  std::ranges::copy(std::vector{2.0f, 4.0f, 8.0f}, rig.values(Port::X).begin());
  rig.run(Pass::FORWARD);
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::Y), std::vector{3.0f, 6.0f, 3.0f, 6.0f}));
  std::ranges::copy(std::vector{2.0f, 4.0f, 6.0f, 8.0f}, rig.values(Port::DY).begin());
  rig.run_backward();
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX), std::vector{4.0f, 10.0f, 6.0f}));
}

TEST(AdaptiveAvgPool, AMapOfItsSizeStaysAsItIs) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(Shape(2, 7, 7, 3), 7));
  EXPECT_TRUE(rig.spec().changes_nothing(rig.query().attrs, rig.query().x[0]));
  EXPECT_FALSE(rig.spec().changes_nothing(rig.query().attrs, Shape(2, 7, 8, 3)));
  rig.run(Pass::FORWARD);
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::Y), rig.values(Port::X)));
}

TEST(AdaptiveAvgPool, Refusals) {
  const Catalog catalog = make_catalog();
  test::expect_error(ErrorKind::ValueError, {"adaptive_avgpool 'layer': size is 0", "at least 1"},
                     [&] { OpRig rig(catalog, case_of(Shape(1, 4, 4, 1), 0)); });
}

}  // namespace
}  // namespace tr
