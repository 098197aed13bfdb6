/// Recorded references: JSON files of tests/reference/, written by the scripts beside them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "renaissance/graph/blueprint.h"
#include "support/op_rig.h"

namespace tr::test {

/// tests/reference/<name>, parsed.
nlohmann::json load_reference(const std::string& name);

/// What a file keeps of one tensor, row-major in NHWC or KRSC order: sums over all elements and the samples
/// at 0, step, 2 step, ….
struct Recorded {
  std::vector<int64_t> shape;
  double sum = 0.0, abs_sum = 0.0;
  int64_t step = 1;
  std::vector<double> samples;

  int64_t numel() const;
};
Recorded recorded(const nlohmann::json& json);

/// Every sample within `tolerance` times the largest recorded magnitude, and the sum within `tolerance` times
/// the sum of magnitudes (1e-7 more for references that are zero). The message names the worst element.
testing::AssertionResult matches(std::span<const float> values, const Recorded& want, double tolerance);

Shape shape_of(const nlohmann::json& json);
/// An object of booleans, integers, numbers and texts.
Attributes attributes_of(const nlohmann::json& json);
/// One case of ops.json.
OpCase op_case_of(const nlohmann::json& json);

}  // namespace tr::test
