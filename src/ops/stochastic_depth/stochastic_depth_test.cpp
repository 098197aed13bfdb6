#include "ops/stochastic_depth/stochastic_depth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::Expect;
using test::OpCase;
using test::OpRig;

OpCase case_of(double probability, const Shape& x, const std::string& mode = "row") {
  OpCase c;
  c.op = "stochastic_depth";
  c.attrs = {{"probability", probability}, {"mode", mode}};
  c.x = {x};
  c.layer = "stage.drop";
  return c;
}

TEST(StochasticDepth, SamplesAreDroppedByTheDocumentedPhiloxStream) {
  const Catalog catalog = make_catalog();
  for (const std::string mode : {"row", "batch"})
    for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(9, 3, 5, 7), Shape(33, 13, 11, 5)}) {
      OpRig rig(catalog, case_of(0.3, shape, mode));
      rig.ints(Port::BASELINE, DROPOUT_SEED)[0] = -5;
      rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] = 77;
      rig.run(Pass::FORWARD);
      rig.run_backward();
      const Philox random(uint32_t(-5));
      const auto sample_items = rig.values(Port::X).size() / static_cast<size_t>(shape.n());
      for (size_t i = 0; i < rig.values(Port::X).size(); ++i) {
        const uint64_t n = i / sample_items, draw = mode == "row" ? n : 0;
        const uint64_t index = dropout_index_base("stage.drop") | (draw / 4);
        const bool kept = Philox::uniform(random.at(RandomPurpose::DROPOUT, 77, index)[draw % 4]) >= 0.3;
        ASSERT_EQ(rig.bytes(Port::SAVED)[n], kept) << n;
        const float factor = kept ? static_cast<float>(1.0 / 0.7) : 0.0f;
        ASSERT_EQ(rig.values(Port::Y)[i], rig.values(Port::X)[i] * factor) << i;
        ASSERT_EQ(rig.values(Port::DX)[i], rig.values(Port::DY)[i] * factor) << i;
      }
    }
}

TEST(StochasticDepth, KeepsTheStatedShare) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(0.2, Shape(4000, 1, 1, 1)));
  rig.run(Pass::FORWARD);
  const auto kept = static_cast<double>(std::ranges::count(rig.bytes(Port::SAVED), 1));
  EXPECT_NEAR(kept / 4000.0, 0.8, 5.0 * std::sqrt(0.8 * 0.2 / 4000.0));
}

TEST(StochasticDepth, ZeroIsAViewOneDropsEverythingInferenceCopies) {
  const Catalog catalog = make_catalog();
  OpRig none(catalog, case_of(0.0, Shape(2, 3, 5, 7))), all(catalog, case_of(1.0, Shape(2, 3, 5, 7)));
  EXPECT_TRUE(none.spec().is_view(none.query().attrs));
  EXPECT_FALSE(all.spec().is_view(all.query().attrs));
  all.run(Pass::FORWARD);
  EXPECT_TRUE(std::ranges::all_of(all.values(Port::Y), [](float y) { return y == 0.0f; }));
  all.run(Pass::INFERENCE);
  EXPECT_TRUE(std::ranges::equal(all.values(Port::Y), all.values(Port::X)));
}

TEST(StochasticDepth, WhatIsNotFiniteShowsInDroppedSamples) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(1.0, Shape(2, 1, 1, 2)));
  rig.values(Port::X)[1] = std::numeric_limits<float>::quiet_NaN();
  rig.run(Pass::FORWARD, Expect::ANY);
  EXPECT_TRUE(std::isnan(rig.values(Port::Y)[1]));
}

TEST(StochasticDepth, Refusals) {
  const Catalog catalog = make_catalog();
  for (const double probability : {-0.1, 1.1, std::nan("")})
    test::expect_error(ErrorKind::ValueError,
                       {"stochastic_depth 'stage.drop': probability is", "from 0 to 1"},
                       [&] { OpRig rig(catalog, case_of(probability, Shape(1, 1, 1, 4))); });
  test::refuses(ErrorKind::ValueError,
                "stochastic_depth 'stage.drop': mode is 'column'; use 'row' or 'batch'",
                [&] { OpRig rig(catalog, case_of(0.5, Shape(1, 1, 1, 4), "column")); });
  test::refuses(ErrorKind::RecipeError, "stochastic_depth needs probability",
                [&] { OpRig rig(catalog, {.op = "stochastic_depth", .x = {Shape(1, 1, 1, 4)}}); });
}

}  // namespace
}  // namespace tr
