// Every operator against what PyTorch computed in float64: tests/reference/ops.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "renaissance/core/error.h"
#include "support/op_rig.h"
#include "support/reference.h"

namespace tr::test {
namespace {

// FP32 sums of up to a few thousand terms against float64, relative to the tensor's largest magnitude.
constexpr double TOLERANCE = 2e-5;
// Divided by a standard deviation that is itself a small difference of large numbers.
constexpr double LARGE_MEAN_TOLERANCE = 2e-4;
// Other orders of summation, and the card's own exp and log.
constexpr double CUDA_TOLERANCE = 1e-4;

/// What the output `name` of a reference is in the rig.
std::vector<float> output(OpRig& rig, const std::string& name) {
  if (name == "predicted") {
    const std::span<const int32_t> labels = rig.ints(Port::BASELINE, PREDICTED_LABEL);
    return {labels.begin(), labels.end()};
  }
  const auto copy = [&](Port port, int index) {
    const std::span<const float> values = rig.values(port, index);
    return std::vector<float>(values.begin(), values.end());
  };
  const auto index = [&] { return name.back() - '0'; };
  if (name == "y") return copy(Port::Y, 0);
  if (name == "loss") return copy(Port::BASELINE, LOSS);
  if (name == "top1") return copy(Port::BASELINE, TOP1);
  if (name == "top5") return copy(Port::BASELINE, TOP5);
  if (name.starts_with("dx")) return copy(Port::DX, index());
  if (name.starts_with("dparam")) return copy(Port::PARAM_GRAD, index());
  if (name.starts_with("next")) return copy(Port::STATE_NEXT, index());
  throw Error(ErrorKind::ValueError, cat("the reference has an output '", name, "' that no port holds"));
}

struct ReferenceCase {
  BackendKind backend;
  nlohmann::json json;
  friend void PrintTo(const ReferenceCase& c, std::ostream* out) { *out << c.json.at("name"); }
};

std::vector<ReferenceCase> reference_cases(BackendKind backend) {
  std::vector<ReferenceCase> cases;
  for (nlohmann::json& json : load_reference("ops.json")) cases.push_back({backend, std::move(json)});
  return cases;
}

class OpReference : public testing::TestWithParam<ReferenceCase> {
 protected:
  void SetUp() override {
    if (GetParam().backend == BackendKind::CUDA && !has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
  void expect_outputs(OpRig& rig, const nlohmann::json& outputs) {
    double tolerance = GetParam().json.value("x_shift", 0.0) == 0.0 ? TOLERANCE : LARGE_MEAN_TOLERANCE;
    if (GetParam().backend == BackendKind::CUDA) tolerance = std::max(tolerance, CUDA_TOLERANCE);
    for (const auto& [name, want] : outputs.items())
      EXPECT_TRUE(matches(output(rig, name), recorded(want), tolerance)) << name;
  }
};

TEST_P(OpReference, Agrees) {
  const nlohmann::json& outputs = GetParam().json.at("outputs");
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, op_case_of(GetParam().json), GetParam().backend);
  if (outputs.contains("forward")) {
    rig.run(Pass::FORWARD);
    expect_outputs(rig, outputs.at("forward"));
  }
  if (outputs.contains("backward")) {
    rig.run_backward();
    expect_outputs(rig, outputs.at("backward"));
  }
  // What is recorded once is the same in training and in inference.
  SCOPED_TRACE("inference");
  rig.run(Pass::INFERENCE);
  expect_outputs(rig, outputs.at(outputs.contains("inference") ? "inference" : "forward"));
}

std::string case_name(const testing::TestParamInfo<ReferenceCase>& tested) {
  return tested.param.json.at("name").get<std::string>();
}

INSTANTIATE_TEST_SUITE_P(Recorded, OpReference, testing::ValuesIn(reference_cases(BackendKind::CPU)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(CudaRecorded, OpReference, testing::ValuesIn(reference_cases(BackendKind::CUDA)),
                         case_name);

TEST(Dropout, KeepsTheStatedShareAndScalesIt) {
  const Catalog catalog = make_catalog();
  for (const double probability : {0.1, 0.5, 0.8}) {
    OpRig rig(catalog,
              {.op = "dropout", .attrs = {{"probability", probability}}, .x = {Shape(8, 20, 20, 33)}});
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const auto scale = static_cast<float>(1.0 / (1.0 - probability));
    const std::span<const float> x = rig.values(Port::X), y = rig.values(Port::Y);
    const std::span<const float> dy = rig.values(Port::DY), dx = rig.values(Port::DX);
    double kept = 0.0;
    for (size_t i = 0; i < y.size(); ++i) {
      const bool keep = y[i] != 0.0f || x[i] == 0.0f;
      kept += keep;
      ASSERT_FLOAT_EQ(y[i], keep ? x[i] * scale : 0.0f) << i;
      ASSERT_FLOAT_EQ(dx[i], keep ? dy[i] * scale : 0.0f) << i;
    }
    // Five standard deviations of a binomial.
    const double n = static_cast<double>(y.size());
    EXPECT_NEAR(kept / n, 1.0 - probability, 5.0 * std::sqrt(probability * (1.0 - probability) / n));
  }
}

TEST(Dropout, CounterAndSeedChangeTheMask) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "dropout", .attrs = {{"probability", 0.5}}, .x = {Shape(2, 8, 8, 16)}});
  const auto mask = [&] {
    rig.run(Pass::FORWARD);
    const std::span<const uint8_t> bits = rig.bytes(Port::SAVED);
    return std::vector<uint8_t>(bits.begin(), bits.end());
  };
  const std::vector<uint8_t> first = mask();
  EXPECT_EQ(mask(), first);
  rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] += 1;
  const std::vector<uint8_t> next_step = mask();
  EXPECT_NE(next_step, first);
  rig.ints(Port::BASELINE, DROPOUT_COUNTER)[0] -= 1;
  rig.ints(Port::BASELINE, DROPOUT_SEED)[0] += 1;
  EXPECT_NE(mask(), first);
}

}  // namespace
}  // namespace tr::test
