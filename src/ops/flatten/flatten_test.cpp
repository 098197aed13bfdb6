#include <gtest/gtest.h>

#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

TEST(Flatten, IsAViewOfAllPixels) {
  const Catalog catalog = make_catalog();
  const OpSpec& flatten = *catalog.find("flatten").spec;
  EXPECT_TRUE(flatten.is_view({}));
  const auto flat = [&](const Shape& x) { return flatten.infer({}, std::array{x}, "flatten"); };
  EXPECT_EQ(flat(Shape(3, 4, 5, 6)), Shape(3, 1, 1, 120));
  EXPECT_EQ(flat(Shape(2, 1, 1, 7)), Shape(2, 1, 1, 7));
  OpQuery query;
  query.x = {Shape(3, 4, 5, 6)};
  EXPECT_TRUE(flatten.uses(query, Pass::FORWARD).empty());
  EXPECT_TRUE(flatten.backward_passes(query).empty());
}

}  // namespace
}  // namespace tr
