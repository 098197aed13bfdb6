#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::expect_error;
using test::OpCase;
using test::OpRig;

struct Problem {
  std::string name;
  Shape x;
  int64_t kernel, stride, padding;
};
void PrintTo(const Problem& problem, std::ostream* out) { *out << problem.name; }

OpCase case_of(const Problem& p) {
  OpCase c;
  c.op = "maxpool";
  c.attrs = {{"kernel", p.kernel}, {"stride", p.stride}, {"padding", p.padding}};
  c.x = {p.x};
  return c;
}

class MaxPoolDefinition : public testing::TestWithParam<Problem> {};

TEST_P(MaxPoolDefinition, ForwardAndBackward) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(GetParam()));
  const int64_t kernel = GetParam().kernel, stride = GetParam().stride == 0 ? kernel : GetParam().stride,
                padding = GetParam().padding;
  const std::span<float> x = rig.values(Port::X);
  // Few distinct values: ties are common.
  for (float& value : x) value = std::round(value * 4.0f);
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const std::vector<float> trained(rig.values(Port::Y).begin(), rig.values(Port::Y).end());
  rig.run(Pass::INFERENCE);
  EXPECT_TRUE(std::ranges::equal(trained, rig.values(Port::Y)));
  const Shape in = GetParam().x, out = rig.query().y;
  std::vector<double> dx(x.size());
  size_t i = 0;
  for (int64_t n = 0; n < out.n(); ++n)
    for (int64_t p = 0; p < out.h(); ++p)
      for (int64_t q = 0; q < out.w(); ++q)
        for (int64_t c = 0; c < out.c(); ++c, ++i) {
          float best = -std::numeric_limits<float>::infinity();
          size_t at = 0;
          for (int64_t r = 0; r < kernel; ++r)
            for (int64_t s = 0; s < kernel; ++s) {
              const int64_t h = p * stride - padding + r, w = q * stride - padding + s;
              if (h < 0 || w < 0 || h >= in.h() || w >= in.w()) continue;
              const auto place = static_cast<size_t>(((n * in.h() + h) * in.w() + w) * in.c() + c);
              if (x[place] <= best) continue;
              best = x[place];
              at = place;
            }
          ASSERT_EQ(trained[i], best) << i;
          dx[at] += double{rig.values(Port::DY)[i]};
        }
  for (size_t k = 0; k < dx.size(); ++k) ASSERT_NEAR(rig.values(Port::DX)[k], dx[k], 1e-6) << k;
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaxPoolDefinition,
                         testing::Values(Problem{"two_by_two", Shape(2, 6, 8, 32), 2, 2, 0},
                                         Problem{"kernel_as_stride", Shape(2, 7, 5, 3), 2, 0, 0},
                                         Problem{"resnet_stem", Shape(2, 12, 13, 17), 3, 2, 1},
                                         Problem{"overlapping", Shape(1, 6, 5, 1), 3, 1, 1},
                                         Problem{"stride_over_kernel", Shape(2, 10, 9, 5), 2, 3, 1},
                                         Problem{"one_pixel", Shape(3, 1, 1, 4), 1, 1, 0},
                                         Problem{"padded_pixel", Shape(3, 1, 1, 4), 3, 2, 1},
                                         Problem{"whole_map", Shape(1, 7, 7, 130), 7, 1, 0},
                                         Problem{"largest_kernel", Shape(1, 15, 16, 3), 15, 1, 7}),
                         [](const auto& tested) { return tested.param.name; });

TEST(MaxPool, FirstMaximumWinsAndNaNPropagates) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({"", Shape(1, 2, 2, 3), 2, 2, 0}));
  const float nan = std::numeric_limits<float>::quiet_NaN(), low = -std::numeric_limits<float>::infinity();
  std::ranges::copy(std::vector{1.0f, nan, low, 2.0f, 5.0f, low, 2.0f, 3.0f, low, 0.0f, 4.0f, low},
                    rig.values(Port::X).begin());
  rig.run(Pass::FORWARD, test::Expect::ANY);
  EXPECT_EQ(rig.values(Port::Y)[0], 2.0f);
  EXPECT_TRUE(std::isnan(rig.values(Port::Y)[1]));
  EXPECT_EQ(rig.values(Port::Y)[2], low);
  EXPECT_TRUE(std::ranges::equal(rig.bytes(Port::SAVED), std::vector<uint8_t>{1, 0, 0}));
  std::ranges::fill(rig.values(Port::DY), 1.0f);
  rig.run_backward();
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::DX),
                                 std::vector{0.f, 1.f, 1.f, 1.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f}));
}

TEST(MaxPool, Refusals) {
  const Catalog catalog = make_catalog();
  const auto make = [&](const Problem& problem) {
    return [&, problem] { OpRig rig(catalog, case_of(problem)); };
  };
  expect_error(ErrorKind::ValueError, {"maxpool 'layer': kernel is 0", "at least 1"},
               make({"", Shape(1, 4, 4, 1), 0, 1, 0}));
  expect_error(ErrorKind::ValueError, {"stride is -1"}, make({"", Shape(1, 4, 4, 1), 2, -1, 0}));
  expect_error(ErrorKind::ValueError, {"padding is 2", "half of kernel 3"},
               make({"", Shape(1, 4, 4, 1), 3, 1, 2}));
  expect_error(ErrorKind::ValueError, {"kernel is 16", "at most 15"},
               make({"", Shape(1, 20, 20, 1), 16, 1, 0}));
  expect_error(ErrorKind::ShapeError,
               {"maxpool 'layer': kernel 5 is larger than input [1,4,4,1] with padding 0"},
               make({"", Shape(1, 4, 4, 1), 5, 1, 0}));
}

TEST(MaxPool, NoBackwardWhereNobodyNeedsIt) {
  const Catalog catalog = make_catalog();
  OpCase c = case_of({"", Shape(1, 4, 4, 1), 2, 2, 0});
  c.needs_dx = {false};
  OpRig rig(catalog, c);
  EXPECT_TRUE(rig.spec().backward_passes(rig.query()).empty());
}

}  // namespace
}  // namespace tr
