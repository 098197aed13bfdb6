#include "ops/activations/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "ops/activations/vector_math.h"
#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::Expect;
using test::OpRig;

constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

test::OpCase case_of(const std::string& op, const Shape& x, const Attributes& attrs = {}) {
  test::OpCase c;
  c.op = op;
  c.attrs = attrs;
  c.x = {x};
  return c;
}

/// In double: f, its derivative, and what backward keeps.
struct Formula {
  std::string name, op;
  Attributes attrs;
  std::function<double(double)> f, derivative;
  Port kept;
};

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double clip(double x) { return std::min(std::max(x, 0.0), 6.0); }
double phi(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi); }
double normal(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double elu_of(double x, double alpha) { return x > 0.0 ? x : alpha * std::expm1(x); }
double elu_slope(double x, double alpha) { return x > 0.0 ? 1.0 : alpha * std::exp(x); }

double gelu_tanh_slope(double x) {
  const double b = std::sqrt(2.0 / std::numbers::pi), t = std::tanh(b * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * b * (1.0 + 3.0 * 0.044715 * x * x);
}

std::vector<Formula> formulas() {
  const double b = std::sqrt(2.0 / std::numbers::pi);
  return {
      {"sigmoid",
       "sigmoid",
       {},
       sigmoid_of,
       [](double x) { return sigmoid_of(x) * sigmoid_of(-x); },
       Port::Y},
      {"tanh",
       "tanh",
       {},
       [](double x) { return std::tanh(x); },
       [](double x) { return 1.0 / (std::cosh(x) * std::cosh(x)); },
       Port::Y},
      {"silu",
       "silu",
       {},
       [](double x) { return x * sigmoid_of(x); },
       [](double x) { return sigmoid_of(x) * (1.0 + x * sigmoid_of(-x)); },
       Port::X},
      {"hardswish",
       "hardswish",
       {},
       [](double x) { return x * clip(x + 3.0) / 6.0; },
       [](double x) { return x <= -3.0  ? 0.0
                             : x >= 3.0 ? 1.0
                                        : x / 3.0 + 0.5; },
       Port::X},
      {"hardsigmoid",
       "hardsigmoid",
       {},
       [](double x) { return clip(x + 3.0) / 6.0; },
       [](double x) { return std::abs(x) < 3.0 ? 1.0 / 6.0 : 0.0; },
       Port::X},
      {"relu6", "relu6", {}, clip, [](double x) { return x > 0.0 && x < 6.0 ? 1.0 : 0.0; }, Port::Y},
      {"elu",
       "elu",
       {},
       [](double x) { return elu_of(x, 1.0); },
       [](double x) { return elu_slope(x, 1.0); },
       Port::Y},
      {"elu_half",
       "elu",
       {{"alpha", 0.5}},
       [](double x) { return elu_of(x, 0.5); },
       [](double x) { return elu_slope(x, 0.5); },
       Port::Y},
      {"elu_zero",
       "elu",
       {{"alpha", 0.0}},
       [](double x) { return elu_of(x, 0.0); },
       [](double x) { return elu_slope(x, 0.0); },
       Port::Y},
      {"elu_vanishing",  // in FP32 alpha is -0
       "elu",
       {{"alpha", -1e-60}},
       [](double x) { return elu_of(x, 0.0); },
       [](double x) { return elu_slope(x, 0.0); },
       Port::Y},
      {"elu_negative",
       "elu",
       {{"alpha", -0.5}},
       [](double x) { return elu_of(x, -0.5); },
       [](double x) { return elu_slope(x, -0.5); },
       Port::X},
      {"gelu",
       "gelu",
       {},
       [](double x) { return x * normal(x); },
       [](double x) { return normal(x) + x * phi(x); },
       Port::X},
      {"gelu_tanh",
       "gelu",
       {{"approximate", std::string("tanh")}},
       [b](double x) { return 0.5 * x * (1.0 + std::tanh(b * (x + 0.044715 * x * x * x))); },
       gelu_tanh_slope,
       Port::X},
  };
}

class Activations : public testing::TestWithParam<Formula> {};

/// An odd number of elements in several pieces, from far below to far above zero.
TEST_P(Activations, ClosedForm) {
  const Formula& formula = GetParam();
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(formula.op, Shape(3, 61, 53, 7), formula.attrs));
  const std::span<float> x = rig.values(Port::X);
  const auto count = static_cast<float>(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = -12.0f + 24.0f * static_cast<float>(i) / count;
  std::ranges::copy(std::vector{-3.0f, 3.0f, 0.0f, 6.0f, -1e-20f, 1e-20f, -90.0f, 90.0f}, x.begin());
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const std::span<const float> y = rig.values(Port::Y), dy = rig.values(Port::DY), dx = rig.values(Port::DX);
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = double{x[i]}, want = formula.f(at), slope = formula.derivative(at) * double{dy[i]};
    ASSERT_NEAR(double{y[i]}, want, 1e-6 * std::max({std::abs(want), std::abs(at), 1e-30})) << at;
    ASSERT_NEAR(double{dx[i]}, slope, 2e-6 * std::abs(double{dy[i]})) << at;
  }
}

TEST_P(Activations, NaNStaysAndInferenceIsTheSame) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(GetParam().op, Shape(1, 1, 1, 7), GetParam().attrs));
  std::ranges::copy(std::vector{NOT_A_NUMBER, 1.0f, -1.0f, NOT_A_NUMBER, 0.0f, 2.0f, -7.0f},
                    rig.values(Port::X).begin());
  for (const Pass pass : {Pass::FORWARD, Pass::INFERENCE}) {
    rig.run(pass, Expect::ANY);
    for (size_t i = 0; i < 7; ++i)
      EXPECT_EQ(std::isnan(rig.values(Port::Y)[i]), std::isnan(rig.values(Port::X)[i])) << i;
  }
}

TEST_P(Activations, BackwardKeepsWhatTheTableSays) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, case_of(GetParam().op, Shape(1, 1, 1, 1), GetParam().attrs));
  EXPECT_EQ(rig.spec().uses(rig.query(), Pass::BACKWARD)[0].port, GetParam().kept);
  test::OpCase without_dx = case_of(GetParam().op, Shape(1, 1, 1, 1), GetParam().attrs);
  without_dx.needs_dx = {false};
  OpRig input(catalog, without_dx);
  EXPECT_TRUE(input.spec().backward_passes(input.query()).empty());
}

INSTANTIATE_TEST_SUITE_P(Table, Activations, testing::ValuesIn(formulas()),
                         [](const auto& tested) { return tested.param.name; });

TEST(ActivationLimits, AreTheFunctions) {
  const Catalog catalog = make_catalog();
  const std::vector<std::pair<std::string, std::pair<float, float>>> limits{
      {"sigmoid", {0.0f, 1.0f}}, {"tanh", {-1.0f, 1.0f}},    {"hardsigmoid", {0.0f, 1.0f}},
      {"relu6", {0.0f, 6.0f}},   {"elu", {-1.0f, INFINITE}},
  };
  for (const auto& [op, ends] : limits) {
    OpRig rig(catalog, case_of(op, Shape(1, 1, 1, 2)));
    std::ranges::copy(std::vector{-INFINITE, INFINITE}, rig.values(Port::X).begin());
    rig.run(Pass::FORWARD, Expect::ANY);
    EXPECT_EQ(rig.values(Port::Y)[0], ends.first) << op;
    EXPECT_EQ(rig.values(Port::Y)[1], ends.second) << op;
  }
}

TEST(ActivationAttributes, DefaultsAndRefusals) {
  const Catalog catalog = make_catalog();
  const Shape one(1, 1, 1, 1);
  EXPECT_EQ(OpRig(catalog, case_of("elu", one)).query().attrs.number("alpha"), 1.0);
  EXPECT_EQ(OpRig(catalog, case_of("gelu", one)).query().attrs.text("approximate"), "none");
  for (const double alpha : {double{INFINITE}, double{NOT_A_NUMBER}, 1e300})
    test::refuses(ErrorKind::ValueError, "elu 'layer': alpha is", [&] {
      OpRig rig(catalog, case_of("elu", one, {{"alpha", alpha}}));
    });
  test::refuses(ErrorKind::ValueError, "gelu 'layer': approximate is 'erf'; use 'none' or 'tanh'", [&] {
    OpRig rig(catalog, case_of("gelu", one, {{"approximate", std::string("erf")}}));
  });
}

TEST(VectorMath, IsWithinItsBounds) {
  const auto check = [](const char* name, auto f, auto exact, float low, float high) {
    constexpr int STEPS = 200001;
    for (int i = 0; i < STEPS; ++i) {
      const float x = low + (high - low) * static_cast<float>(i) / (STEPS - 1);
      const double want = exact(double{x});
      ASSERT_NEAR(double{f(x)}, want, 1.5e-7 * std::abs(want)) << name << '(' << x << ')';
    }
  };
  check(
      "exp", VectorMath::exp, [](double x) { return std::exp(x); }, -87.0f, 88.0f);
  check(
      "expm1", VectorMath::expm1, [](double x) { return std::expm1(x); }, -20.0f, 20.0f);
  check(
      "tanh", VectorMath::tanh, [](double x) { return std::tanh(x); }, -12.0f, 12.0f);
  check(
      "erf", VectorMath::erf, [](double x) { return std::erf(x); }, -6.0f, 6.0f);
  EXPECT_EQ(VectorMath::exp(-INFINITE), 0.0f);
  EXPECT_EQ(VectorMath::exp(INFINITE), INFINITE);
  EXPECT_EQ(VectorMath::expm1(-INFINITE), -1.0f);
  for (float (*f)(float) : {VectorMath::exp, VectorMath::expm1, VectorMath::tanh, VectorMath::erf})
    EXPECT_TRUE(std::isnan(f(NOT_A_NUMBER)));
  for (float (*f)(float) : {VectorMath::tanh, VectorMath::erf}) {
    EXPECT_EQ(f(INFINITE), 1.0f);
    EXPECT_EQ(f(-INFINITE), -1.0f);
  }
}

}  // namespace
}  // namespace tr
