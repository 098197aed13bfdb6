#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

test::OpCase case_of(std::vector<Shape> x, std::vector<bool> needs_dx = {}) {
  return {.op = "concat", .attrs = {}, .x = std::move(x), .needs_dx = std::move(needs_dx)};
}

TEST(Concat, ChannelsStandInTheOrderOfInputs) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({Shape(2, 3, 5, 4), Shape(2, 3, 5, 1), Shape(2, 3, 5, 7)}));
  EXPECT_EQ(rig.query().y, Shape(2, 3, 5, 12));
  rig.run(Pass::FORWARD);
  rig.run(Pass::INFERENCE);
  rig.run_backward();
  const std::vector<std::pair<int, size_t>> parts{{0, 4}, {1, 1}, {2, 7}};
  for (size_t pixel = 0; pixel < 30; ++pixel) {
    size_t channel = 0;
    for (const auto& [index, channels] : parts)
      for (size_t c = 0; c < channels; ++c, ++channel) {
        ASSERT_EQ(rig.values(Port::Y)[pixel * 12 + channel],
                  rig.values(Port::X, index)[pixel * channels + c]);
        ASSERT_EQ(rig.values(Port::DX, index)[pixel * channels + c],
                  rig.values(Port::DY)[pixel * 12 + channel]);
      }
  }
}

TEST(Concat, OnlyWantedGradientsAreWritten) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({Shape(1, 2, 2, 3), Shape(1, 2, 2, 2)}, {false, true}));
  rig.run(Pass::FORWARD);
  rig.run_backward();
  EXPECT_FALSE(rig.has(Port::DX, 0));
  EXPECT_EQ(rig.values(Port::DX, 1)[0], rig.values(Port::DY)[3]);
  OpRig none(catalog, case_of({Shape(1, 2, 2, 3), Shape(1, 2, 2, 2)}, {false, false}));
  EXPECT_TRUE(none.spec().backward_passes(none.query()).empty());
}

TEST(Concat, OneInputIsACopy) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({Shape(1, 1, 1, 1)}));
  rig.run(Pass::FORWARD);
  EXPECT_EQ(rig.values(Port::Y)[0], rig.values(Port::X)[0]);
}

TEST(Concat, Refusals) {
  const Catalog catalog = make_catalog();
  for (const Shape& other : {Shape(2, 3, 4, 8), Shape(2, 4, 3, 8), Shape(1, 4, 4, 8)})
    test::expect_error(ErrorKind::ShapeError,
                       {"concat 'layer': inputs [2,4,4,8] and ", "differ in more than channels"}, [&] {
                         OpRig rig(catalog, case_of({Shape(2, 4, 4, 8), other}));
                       });
}

}  // namespace
}  // namespace tr
