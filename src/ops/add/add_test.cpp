#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

TEST(Add, SumsAndPassesTheGradientThrough) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(2, 3, 3, 5), Shape(3, 97, 131, 3)}) {
    OpRig rig(catalog, {.op = "add", .attrs = {}, .x = {shape, shape}, .needs_dx = {}});
    EXPECT_TRUE(rig.spec().passes_gradient_through(rig.query().attrs));
    EXPECT_TRUE(rig.spec().backward_passes(rig.query()).empty());
    for (const Pass pass : {Pass::FORWARD, Pass::INFERENCE}) {
      rig.run(pass);
      for (size_t i = 0; i < rig.values(Port::Y).size(); ++i)
        ASSERT_EQ(rig.values(Port::Y)[i], rig.values(Port::X, 0)[i] + rig.values(Port::X, 1)[i]) << i;
    }
  }
}

TEST(Add, RefusesUnequalShapes) {
  const Catalog catalog = make_catalog();
  test::expect_error(
      ErrorKind::ShapeError, {"add 'layer': inputs [2,4,4,8] and [2,2,2,8] differ", "projection"}, [&] {
        OpRig rig(catalog,
                  {.op = "add", .attrs = {}, .x = {Shape(2, 4, 4, 8), Shape(2, 2, 2, 8)}, .needs_dx = {}});
      });
}

}  // namespace
}  // namespace tr
