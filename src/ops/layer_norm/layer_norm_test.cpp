#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpRig;

test::OpCase case_of(const Shape& x, const Attributes& attrs = {}) {
  test::OpCase c;
  c.op = "layer_norm";
  c.attrs = attrs;
  c.x = {x};
  return c;
}

TEST(LayerNorm, EveryPixelHasMeanZeroAndVarianceOne) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape :
       {Shape(1, 1, 1, 7), Shape(2, 5, 3, 32), Shape(3, 1, 1, 129), Shape(2, 9, 9, 96)}) {
    test::OpCase c = case_of(shape);
    c.x_scale = 5.0;
    c.x_shift = 40.0;
    OpRig rig(catalog, c);
    std::ranges::fill(rig.values(Port::PARAM, 0), 1.0f);
    std::ranges::fill(rig.values(Port::PARAM, 1), 0.0f);
    rig.run(Pass::FORWARD);
    const std::span<const float> y = rig.values(Port::Y);
    const auto channels = static_cast<size_t>(shape.c());
    for (size_t first = 0; first < y.size(); first += channels) {
      double sum = 0.0, squares = 0.0;
      for (const float value : y.subspan(first, channels)) {
        sum += double{value};
        squares += double{value} * double{value};
      }
      EXPECT_NEAR(sum / static_cast<double>(channels), 0.0, 1e-4);
      EXPECT_NEAR(squares / static_cast<double>(channels), 1.0, 1e-3);
    }
  }
}

TEST(LayerNorm, OneChannelIsItsBias) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(Shape(3, 2, 2, 1)));
  rig.run(Pass::FORWARD);
  rig.run_backward();
  for (const float y : rig.values(Port::Y)) EXPECT_EQ(y, rig.values(Port::PARAM, 1)[0]);
  for (const float dx : rig.values(Port::DX)) EXPECT_NEAR(dx, 0.0f, 1e-4f);  // rounding, by 1 / sqrt(epsilon)
  EXPECT_EQ(rig.values(Port::PARAM_GRAD, 0)[0], 0.0f);
}

TEST(LayerNorm, ThreadsChangeNoBit) {
  const Catalog catalog = make_catalog();
  const int threads = omp_get_max_threads();
  std::vector<std::vector<float>> results;
  for (const int count : {1, 3}) {
    omp_set_num_threads(count);
    OpRig rig(catalog, case_of(Shape(5, 23, 19, 24)));
    rig.run(Pass::FORWARD);
    rig.run_backward();
    std::vector<float> all = rig.get(Port::Y);
    for (const std::vector<float>& more :
         {rig.get(Port::DX), rig.get(Port::PARAM_GRAD, 0), rig.get(Port::PARAM_GRAD, 1)})
      all.insert(all.end(), more.begin(), more.end());
    results.push_back(all);
  }
  omp_set_num_threads(threads);
  EXPECT_TRUE(results[0] == results[1]);
}

TEST(LayerNorm, ParametersAndRefusals) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(Shape(2, 3, 3, 5)));
  EXPECT_EQ(rig.query().attrs.number("epsilon"), 1e-6);
  ASSERT_EQ(rig.params().size(), 2u);
  EXPECT_EQ(rig.params()[0].name, "weight");
  EXPECT_EQ(rig.params()[0].role, ParamRole::BN_WEIGHT);
  EXPECT_EQ(rig.params()[1].role, ParamRole::BN_BIAS);
  EXPECT_EQ(rig.spec().state_channels(rig.query()), 0);
  for (const double epsilon : {0.0, -1e-6, std::nan("")})
    test::expect_error(ErrorKind::ValueError, {"layer_norm 'layer': epsilon is", "it must be positive"}, [&] {
      OpRig refused(catalog, case_of(Shape(1, 1, 1, 4), {{"epsilon", epsilon}}));
    });
}

}  // namespace
}  // namespace tr
