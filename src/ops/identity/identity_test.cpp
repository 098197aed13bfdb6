#include <gtest/gtest.h>

#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

TEST(Identity, IsAViewWhoseKernelsCopy) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(2, 3, 3, 5), Shape(3, 97, 131, 3)}) {
    OpRig rig(catalog, {.op = "identity", .attrs = {}, .x = {shape}, .needs_dx = {}});
    EXPECT_TRUE(rig.spec().is_view(rig.query().attrs));
    EXPECT_EQ(rig.query().y, shape);
    for (const Pass pass : {Pass::FORWARD, Pass::INFERENCE}) {
      rig.run(pass);
      EXPECT_TRUE(std::ranges::equal(rig.values(Port::X), rig.values(Port::Y)));
    }
  }
}

}  // namespace
}  // namespace tr
