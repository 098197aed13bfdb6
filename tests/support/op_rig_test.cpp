// The harness must be able to fail: one operator with one mistake at a time.
#include "support/op_rig.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "renaissance/core/error.h"
#include "support/gradient_check.h"
#include "support/reference.h"

namespace tr::test {
namespace {

enum class Mistake {
  NONE,
  LEAVES_AN_ELEMENT,
  WRITES_PAST_THE_END,
  WRITES_ITS_INPUT,
  READS_SCRATCH,
  OVERRUNS_WORKSPACE,
  GIVES_NAN,
  CLEARS_FIRST,
  WRONG_GRADIENT,
  DECLINES
};

/// y = x * x, which may lie on x
class SquareSpec : public OpSpec {
 public:
  std::string_view name() const override { return "square"; }
  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }
  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::X), reads(Port::DY), writes(Port::DX)};
    return {reads(Port::X), writes(Port::Y)};
  }
  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {{writes(Port::DX), reads(Port::DY)}};
    return {{writes(Port::Y), reads(Port::X)}};
  }
};

class SquareKernels : public OpKernels {
 public:
  explicit SquareKernels(Mistake mistake) : mistake_(mistake) {}
  Offer offer(const OpQuery&, Pass) const override {
    return {mistake_ == Mistake::DECLINES ? "not today" : "", 64};
  }
  Call prepare(const Binding& binding, KernelContext&) const override {
    auto* x = binding.data<float>(Port::X);
    auto* scratch = reinterpret_cast<float*>(binding.workspace);
    const int64_t n = binding.query.x[0].numel();
    if (binding.pass == Pass::BACKWARD) {
      const auto* dy = binding.data<float>(Port::DY);
      auto* dx = binding.data<float>(Port::DX);
      const float factor = mistake_ == Mistake::WRONG_GRADIENT ? 2.1f : 2.0f;
      return [=] {
        for (int64_t i = 0; i < n; ++i) dx[i] = factor * x[i] * dy[i];
      };
    }
    auto* y = binding.data<float>(Port::Y);
    return [=, mistake = mistake_] {
      if (mistake == Mistake::CLEARS_FIRST) std::fill_n(y, n, 0.0f);
      for (int64_t i = mistake == Mistake::LEAVES_AN_ELEMENT; i < n; ++i) y[i] = x[i] * x[i];
      if (mistake == Mistake::WRITES_PAST_THE_END) y[n] = 1.0f;
      if (mistake == Mistake::WRITES_ITS_INPUT) x[0] = 7.0f;
      if (mistake == Mistake::READS_SCRATCH) y[2] = scratch[0];
      if (mistake == Mistake::OVERRUNS_WORKSPACE) scratch[16] = 1.0f;
      if (mistake == Mistake::GIVES_NAN) y[1] = NAN;
    };
  }

 private:
  Mistake mistake_;
};

Catalog square_catalog(Mistake mistake) {
  Catalog catalog;
  catalog.add({std::make_unique<SquareSpec>(), {std::make_unique<SquareKernels>(mistake), nullptr}});
  return catalog;
}

OpCase square_case() { return {.op = "square", .x = {Shape(2, 3, 1, 5)}}; }

/// The text of the error that a forward pass ends with; empty when it passes.
std::string error_of(Mistake mistake, Expect expect = Expect::FINITE) {
  const Catalog catalog = square_catalog(mistake);
  OpRig rig(catalog, square_case());
  try {
    rig.run(Pass::FORWARD, expect);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OpRig, PassesWhatIsRight) {
  const Catalog catalog = square_catalog(Mistake::NONE);
  OpRig rig(catalog, square_case());
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const float x = fill_value(4, 1);
  EXPECT_EQ(rig.values(Port::Y)[4], x * x);
  EXPECT_EQ(rig.values(Port::DX)[4], 2.0f * x * fill_value(4, 1 + DY_STREAM));
}

TEST(OpRig, FindsEachMistake) {
  EXPECT_NE(error_of(Mistake::LEAVES_AN_ELEMENT).find("y[0] element 0 differs between two runs"),
            std::string::npos);
  EXPECT_NE(error_of(Mistake::WRITES_PAST_THE_END).find("bytes past the end of y[0]"), std::string::npos);
  EXPECT_NE(error_of(Mistake::WRITES_ITS_INPUT).find("changed x[0], which it does not list"),
            std::string::npos);
  EXPECT_NE(error_of(Mistake::READS_SCRATCH).find("y[0] element 2 differs between two runs"),
            std::string::npos);
  EXPECT_NE(error_of(Mistake::OVERRUNS_WORKSPACE).find("past its workspace of 64 bytes"), std::string::npos);
  EXPECT_NE(error_of(Mistake::GIVES_NAN).find("y[0] element 1 is nan"), std::string::npos);
  EXPECT_EQ(error_of(Mistake::GIVES_NAN, Expect::ANY), "");
  EXPECT_NE(error_of(Mistake::CLEARS_FIRST).find("y[0] element 0 is 0 with outputs on the bytes of inputs"),
            std::string::npos);
  EXPECT_NE(error_of(Mistake::DECLINES).find("not today"), std::string::npos);
}

TEST(GradientCheck, AcceptsRightAndRefusesWrongGradients) {
  check_gradients(square_catalog(Mistake::NONE), square_case());
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter capture(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check_gradients(square_catalog(Mistake::WRONG_GRADIENT), square_case());
  }
  EXPECT_GT(results.size(), 0);
}

TEST(Reference, MatchesWithinToleranceOnly) {
  const std::vector<float> values{1.0f, -2.0f, 3.0f, 4.0f};
  const Recorded same{{1, 2, 2}, 6.0, 10.0, 2, {1.0, 3.0}};
  EXPECT_TRUE(matches(values, same, 1e-6));
  Recorded off = same;
  off.samples[1] = 3.01;
  EXPECT_FALSE(matches(values, off, 1e-3));
  EXPECT_TRUE(matches(values, off, 1e-2));
  off = same;
  off.sum = 6.1;  // an element between the samples differs
  EXPECT_FALSE(matches(values, off, 1e-3));
  EXPECT_FALSE(matches(std::vector<float>{1.0f, -2.0f, 3.0f}, same, 1.0));
  EXPECT_FALSE(matches(std::vector<float>{NAN, -2.0f, 3.0f, 4.0f}, same, 1.0));
}

}  // namespace
}  // namespace tr::test
