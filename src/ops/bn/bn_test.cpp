#include <gtest/gtest.h>
#include <omp.h>

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
  bool relu = false, residual = false;
  double shift = 0.0;
};
void PrintTo(const Problem& problem, std::ostream* out) { *out << problem.name; }

OpCase case_of(const Problem& problem) {
  OpCase c;
  c.op = "bn";
  c.attrs = {{"residual", problem.residual}};
  if (problem.relu) c.attrs.set("activation", std::string("relu"));
  c.x.assign(problem.residual ? 2 : 1, problem.x);
  c.x_shift = problem.shift;
  return c;
}

class BnDefinition : public testing::TestWithParam<Problem> {};

/// Every output of FORWARD and BACKWARD against the definition in double.
TEST_P(BnDefinition, ForwardAndBackward) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(GetParam()));
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const auto channels = static_cast<size_t>(GetParam().x.c());
  const auto x = rig.values(Port::X), y = rig.values(Port::Y), dy = rig.values(Port::DY),
             dx = rig.values(Port::DX);
  const auto count = static_cast<double>(x.size() / channels);
  // The mean itself is kept in FP32.
  const double tolerance = 2e-5 + 1e-7 * std::abs(GetParam().shift);
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0.0, squares = 0.0, sum_g = 0.0, sum_gx = 0.0;
    for (size_t i = c; i < x.size(); i += channels) mean += double{x[i]} / count;
    for (size_t i = c; i < x.size(); i += channels) squares += (x[i] - mean) * (x[i] - mean);
    const double inverse = 1.0 / std::sqrt(squares / count + 1e-5), weight = rig.values(Port::PARAM, 0)[c];
    EXPECT_NEAR(rig.values(Port::STATE_NEXT, 0)[c], 0.9 * rig.values(Port::STATE_PREV, 0)[c] + 0.1 * mean,
                1e-6 + 1e-8 * std::abs(GetParam().shift));
    EXPECT_NEAR(rig.values(Port::STATE_NEXT, 1)[c],
                0.9 * rig.values(Port::STATE_PREV, 1)[c] + 0.1 * squares / (count - 1.0), 1e-6);
    const auto masked = [&](size_t i) { return GetParam().relu && y[i] <= 0.0f ? 0.0 : double{dy[i]}; };
    for (size_t i = c; i < x.size(); i += channels) {
      double value = (x[i] - mean) * inverse * weight + rig.values(Port::PARAM, 1)[c];
      if (GetParam().residual) value += rig.values(Port::X, 1)[i];
      if (GetParam().relu) value = std::max(value, 0.0);
      ASSERT_NEAR(y[i], value, tolerance * inverse) << i;
      sum_g += masked(i);
      sum_gx += masked(i) * (x[i] - mean) * inverse;
    }
    EXPECT_NEAR(rig.values(Port::PARAM_GRAD, 0)[c], sum_gx, tolerance * inverse * count / 100.0 + 1e-4);
    EXPECT_NEAR(rig.values(Port::PARAM_GRAD, 1)[c], sum_g, 1e-4);
    for (size_t i = c; i < x.size(); i += channels) {
      const double expected =
          weight * inverse * (masked(i) - sum_g / count - (x[i] - mean) * inverse * sum_gx / count);
      ASSERT_NEAR(dx[i], expected, tolerance * inverse * inverse) << i;
      if (GetParam().residual) {
        ASSERT_EQ(rig.values(Port::DX, 1)[i], masked(i)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BnDefinition,
                         testing::Values(Problem{"one_channel", Shape(2, 5, 7, 1), true},
                                         Problem{"one_channel_large", Shape(8, 50, 50, 1)},
                                         Problem{"three_channels", Shape(3, 5, 7, 3), true},
                                         Problem{"three_channels_large", Shape(9, 41, 43, 3), true, true},
                                         Problem{"five_channels", Shape(1, 3, 1, 5), false, true},
                                         Problem{"sixteen", Shape(5, 31, 29, 16), true},
                                         Problem{"sixty_three", Shape(2, 9, 9, 63)},
                                         Problem{"sixty_four", Shape(4, 20, 20, 64), true, true},
                                         Problem{"slab_and_a_bit", Shape(3, 11, 11, 131), true},
                                         Problem{"two_pixels", Shape(2, 1, 1, 300)},
                                         Problem{"large_mean", Shape(4, 13, 13, 8), false, false, 1000.0},
                                         Problem{"larger_than_caches", Shape(3, 205, 205, 68), true}),
                         [](const auto& tested) { return tested.param.name; });

TEST(Bn, VarianceSurvivesLargeMeansAndOutliers) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "bn", .attrs = {{"momentum", 1.0}}, .x = {Shape(4, 64, 64, 2)}, .needs_dx = {}});
  const std::span<float> x = rig.values(Port::X);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1e6f + static_cast<float>(i / 2 % 2) : x[i];
  x[1] = 1e4f;
  rig.run(Pass::FORWARD);
  const double count = static_cast<double>(x.size() / 2);
  EXPECT_NEAR(rig.values(Port::STATE_NEXT, 0)[0], 1e6 + 0.5, 0.07);
  EXPECT_NEAR(rig.values(Port::STATE_NEXT, 1)[0], 0.25 * count / (count - 1.0), 1e-7);
  double mean = 0.0, squares = 0.0;
  for (size_t i = 1; i < x.size(); i += 2) mean += x[i] / count;
  for (size_t i = 1; i < x.size(); i += 2) squares += (x[i] - mean) * (x[i] - mean);
  EXPECT_NEAR(rig.values(Port::STATE_NEXT, 1)[1], squares / (count - 1.0), 1e-5 * squares / count);
}

TEST(Bn, ConstantChannelGivesItsBias) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "bn", .attrs = {}, .x = {Shape(3, 4, 5, 3)}, .needs_dx = {}});
  std::ranges::fill(rig.values(Port::X), 1234.567f);
  rig.run(Pass::FORWARD);
  for (size_t i = 0; i < rig.values(Port::Y).size(); ++i)
    ASSERT_EQ(rig.values(Port::Y)[i], rig.values(Port::PARAM, 1)[i % 3]);
}

TEST(Bn, InferenceUsesRunningStatistics) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({"", Shape(1, 1, 1, 2), true, true}));
  const auto set = [&](Port port, int index, float a, float b) {
    rig.values(port, index)[0] = a;
    rig.values(port, index)[1] = b;
  };
  set(Port::X, 0, 3.0f, 3.0f);
  set(Port::X, 1, 0.5f, -100.0f);
  set(Port::STATE_PREV, 0, 1.0f, 1.0f);
  set(Port::STATE_PREV, 1, 4.0f, 1.0f);
  set(Port::PARAM, 0, 2.0f, 1.0f);
  set(Port::PARAM, 1, 0.25f, 0.0f);
  rig.run(Pass::INFERENCE);
  EXPECT_NEAR(rig.values(Port::Y)[0], 2.75, 1e-5);
  EXPECT_EQ(rig.values(Port::Y)[1], 0.0f);
}

/// As torch.nn.BatchNorm2d.eval(): y and dx are linear in x and dy, channel by channel.
TEST(Bn, FrozenTrainsWithTheRunningStatisticsAndKeepsThem) {
  const Catalog catalog = make_catalog();
  for (const Shape& x : {Shape(1, 1, 1, 3), Shape(5, 7, 3, 3), Shape(2, 1, 1, 70)}) {
    OpCase c = case_of({"", x});
    c.attrs.set("frozen", true);
    OpRig rig(catalog, c);
    rig.run(Pass::INFERENCE);
    const std::vector<float> inferred = rig.get(Port::Y);
    rig.run(Pass::FORWARD);
    rig.run_backward();
    EXPECT_EQ(rig.get(Port::Y), inferred);
    for (const int i : {0, 1}) EXPECT_EQ(rig.get(Port::STATE_NEXT, i), rig.get(Port::STATE_PREV, i));
    const auto channels = static_cast<size_t>(x.c());
    for (size_t channel = 0; channel < channels; ++channel) {
      const double mean = rig.values(Port::STATE_PREV, 0)[channel];
      const double inverse = 1.0 / std::sqrt(rig.values(Port::STATE_PREV, 1)[channel] + 1e-5);
      const double weight = rig.values(Port::PARAM, 0)[channel];
      double sum = 0.0, sum_x = 0.0;
      for (size_t i = channel; i < inferred.size(); i += channels) {
        const double dy = rig.values(Port::DY)[i];
        EXPECT_NEAR(rig.values(Port::DX)[i], weight * inverse * dy, 1e-6) << i;
        sum += dy;
        sum_x += dy * (rig.values(Port::X)[i] - mean) * inverse;
      }
      EXPECT_NEAR(rig.values(Port::PARAM_GRAD, 0)[channel], sum_x, 1e-5);
      EXPECT_NEAR(rig.values(Port::PARAM_GRAD, 1)[channel], sum, 1e-5);
    }
  }
}

TEST(Bn, SameBitsForAnyNumberOfThreads) {
  const Catalog catalog = make_catalog();
  const int threads = omp_get_max_threads();
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 5}) {
    omp_set_num_threads(count);
    OpRig rig(catalog, case_of({"", Shape(7, 33, 31, 24), true, true}));
    rig.run(Pass::FORWARD);
    rig.run_backward();
    std::vector<float> all;
    for (const auto& [port, index] : {std::pair(Port::Y, 0),
                                      {Port::DX, 0},
                                      {Port::PARAM_GRAD, 0},
                                      {Port::PARAM_GRAD, 1},
                                      {Port::STATE_NEXT, 1}})
      all.insert(all.end(), rig.values(port, index).begin(), rig.values(port, index).end());
    results.push_back(std::move(all));
  }
  omp_set_num_threads(threads);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Bn, LeavesOutGradientsThatNobodyNeeds) {
  const Catalog catalog = make_catalog();
  for (const std::vector<bool>& needs : {std::vector{false, false}, {true, false}, {false, true}}) {
    OpCase c = case_of({"", Shape(2, 3, 3, 4), true, true});
    c.needs_dx = needs;
    OpRig rig(catalog, c);
    const auto writes_dx = [&](int index) {
      return std::ranges::any_of(rig.spec().uses(rig.query(), Pass::BACKWARD), [index](const Use& use) {
        return use.port == Port::DX && use.index == index;
      });
    };
    EXPECT_EQ(writes_dx(0), needs[0]);
    EXPECT_EQ(writes_dx(1), needs[1]);
    rig.run(Pass::FORWARD);
    rig.run_backward();
  }
}

TEST(Bn, AbsorbsOneAddThenOneRelu) {
  const Catalog catalog = make_catalog();
  const OpSpec& bn = *catalog.find("bn").spec;
  const Attributes plain = complete_attributes(bn, {}, "bn 'a'");
  const auto sum = bn.absorb(plain, "add", {}, 1);
  ASSERT_TRUE(sum.has_value());
  EXPECT_TRUE(sum->flag("residual"));
  EXPECT_FALSE(bn.absorb(*sum, "add", {}, 0).has_value());
  const auto both = bn.absorb(*sum, "relu", {}, 0);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->text("activation"), "relu");
  EXPECT_EQ(bn.num_inputs(*both), 2);
  const auto activated = bn.absorb(plain, "relu", {}, 0);
  ASSERT_TRUE(activated.has_value());
  for (const char* consumer : {"add", "relu"})
    EXPECT_FALSE(bn.absorb(*activated, consumer, {}, 0).has_value());
  EXPECT_FALSE(bn.absorb(plain, "conv", {}, 0).has_value());
}

/// Without a residual the mask is computed again; a byte holds eight channels of one pixel.
TEST(Bn, OnlyCudaSavesTheReluMaskOfASum) {
  const Catalog catalog = make_catalog();
  for (const bool residual : {false, true}) {
    OpRig rig(catalog, case_of({"", Shape(1, 3, 3, 11), true, residual}));
    OpQuery query = rig.query();
    EXPECT_EQ(rig.spec().saved(query).size(), 2u);
    query.target.backend = BackendKind::CUDA;
    const std::vector<SavedSpec> saved = rig.spec().saved(query);
    ASSERT_EQ(saved.size(), residual ? 3u : 2u);
    if (!residual) continue;
    EXPECT_EQ(saved[2].region, Region::S_MASK);
    EXPECT_EQ(saved[2].shape, Shape(1, 1, 1, 9 * 2));
  }
}

TEST(Bn, Refusals) {
  const Catalog catalog = make_catalog();
  const OpSpec& bn = *catalog.find("bn").spec;
  const auto check = [&](const Attributes& attrs) {
    bn.check(complete_attributes(bn, attrs, "bn 'a'"), "bn 'a'");
  };
  expect_error(ErrorKind::ValueError, {"bn 'a': momentum is 1.5", "from 0 to 1"}, [&] {
    check({{"momentum", 1.5}});
  });
  expect_error(ErrorKind::ValueError, {"bn 'a': epsilon is 0", "positive"}, [&] {
    check({{"epsilon", 0.0}});
  });
  expect_error(ErrorKind::ValueError, {"epsilon"}, [&] {
    check({{"epsilon", std::numeric_limits<double>::quiet_NaN()}});
  });
  expect_error(ErrorKind::ValueError, {"activation 'gelu' is not known"}, [&] {
    check({{"activation", std::string("gelu")}});
  });
  expect_error(ErrorKind::ShapeError, {"bn 'a': inputs are [1,2,2,3] and [1,2,1,3]"}, [&] {
    bn.infer(complete_attributes(bn, {{"residual", true}}, "bn 'a'"),
             std::vector{Shape(1, 2, 2, 3), Shape(1, 2, 1, 3)}, "bn 'a'");
  });
}

TEST(Bn, DeclinesOneValuePerChannel) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of({"", Shape(1, 1, 1, 8)}));
  EXPECT_NE(rig.offer(Pass::FORWARD).declined.find("batch norm over 1 value per channel has no variance"),
            std::string::npos);
  EXPECT_TRUE(rig.offer(Pass::INFERENCE).supported());
  OpQuery query = rig.query();
  query.dtype = DType::FP16;
  EXPECT_FALSE(catalog.offer(catalog.find("bn"), query, Pass::FORWARD).supported());
  query.target.backend = BackendKind::CUDA;
  EXPECT_FALSE(rig.spec().offer_cuda(query, Pass::FORWARD).supported());
}

}  // namespace
}  // namespace tr
