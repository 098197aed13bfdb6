#include "ops/dropout/dropout.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>

#include "renaissance/core/philox.h"
#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::expect_error;
using test::OpCase;
using test::OpRig;

OpCase case_of(double probability, const Shape& x, const std::string& layer = "layer") {
  OpCase c;
  c.op = "dropout";
  c.attrs = {{"probability", probability}};
  c.x = {x};
  c.layer = layer;
  return c;
}

std::vector<uint8_t> mask_of(OpRig& rig) {
  rig.run(Pass::FORWARD);
  return {rig.bytes(Port::SAVED).begin(), rig.bytes(Port::SAVED).end()};
}

TEST(Dropout, MaskIsTheDocumentedPhiloxStream) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(3, 1, 1, 21), Shape(2, 1, 1, 64), Shape(5, 9, 7, 33)}) {
    OpRig rig(catalog, case_of(0.3, shape, "head.drop"));
    rig.ints(Port::BASELINE, DROPOUT_SEED)[0] = -5;
    rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] = 77;
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const Philox random(uint32_t(-5));
    for (size_t i = 0; i < rig.values(Port::X).size(); ++i) {
      const uint64_t index = dropout_index_base("head.drop") | (i / 4);
      const bool kept = Philox::uniform(random.at(RandomPurpose::DROPOUT, 77, index)[i % 4]) >= 0.3;
      ASSERT_EQ(rig.bytes(Port::SAVED)[i / 8] >> i % 8 & 1, kept) << i;
      const float scale = static_cast<float>(1.0 / 0.7);
      ASSERT_EQ(rig.values(Port::Y)[i], kept ? rig.values(Port::X)[i] * scale : 0.0f) << i;
      ASSERT_EQ(rig.values(Port::DX)[i], kept ? rig.values(Port::DY)[i] * scale : 0.0f) << i;
    }
    const auto used = static_cast<int>(rig.values(Port::X).size() % 8);
    if (used != 0) {
      EXPECT_EQ(rig.bytes(Port::SAVED).back() >> used, 0) << "spare bits are zero";
    }
  }
}

TEST(Dropout, SeedCounterAndLayerDrawApartThreadsDoNot) {
  const Catalog catalog = make_catalog();
  const Shape shape(16, 1, 1, 1000);
  OpRig rig(catalog, case_of(0.5, shape)), other_layer(catalog, case_of(0.5, shape, "other"));
  const std::vector<uint8_t> first = mask_of(rig);
  EXPECT_NE(first, mask_of(other_layer));
  rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] += 1;
  EXPECT_NE(first, mask_of(rig));
  rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] -= 1;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(3);
  EXPECT_EQ(first, mask_of(rig));
  omp_set_num_threads(threads);
  rig.ints(Port::BASELINE, DROPOUT_SEED)[0] += 1;
  EXPECT_NE(first, mask_of(rig));
}

TEST(Dropout, ZeroIsAViewOneDropsEverythingInferenceCopies) {
  const Catalog catalog = make_catalog();
  OpRig all(catalog, case_of(1.0, Shape(1, 3, 5, 7)));
  EXPECT_FALSE(all.spec().is_view(all.query().attrs));
  all.run(Pass::FORWARD);
  EXPECT_TRUE(std::ranges::all_of(all.values(Port::Y), [](float y) { return y == 0.0f; }));
  OpRig none(catalog, case_of(0.0, Shape(1, 3, 5, 7)));
  EXPECT_TRUE(none.spec().is_view(none.query().attrs));
  all.run(Pass::INFERENCE);
  EXPECT_TRUE(std::ranges::equal(all.values(Port::Y), all.values(Port::X)));
}

TEST(Dropout, Refusals) {
  const Catalog catalog = make_catalog();
  for (const double probability : {-0.1, 1.1})
    expect_error(ErrorKind::ValueError, {"dropout 'layer': probability is", "from 0 to 1"},
                 [&] { OpRig rig(catalog, case_of(probability, Shape(1, 1, 1, 4))); });
}

}  // namespace
}  // namespace tr
