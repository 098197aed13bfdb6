#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

#include "renaissance/core/error.h"

namespace tr::test {

nlohmann::json load_reference(const std::string& name) {
  const std::string path = cat(TR_SOURCE_DIR, "/tests/reference/", name);
  std::ifstream file(path);
  TR_CHECK(file.is_open(), IoError, cat("reference ", path, " cannot be opened"));
  return nlohmann::json::parse(file);
}

int64_t Recorded::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Recorded recorded(const nlohmann::json& json) {
  return {json.at("shape"), json.at("sum"), json.at("abs_sum"), json.at("step"), json.at("samples")};
}

testing::AssertionResult matches(std::span<const float> values, const Recorded& want, double tolerance) {
  if (static_cast<int64_t>(values.size()) != want.numel())
    return testing::AssertionFailure() << values.size() << " elements, expected " << want.numel();
  constexpr double ABSOLUTE = 1e-7;  // where the reference is zero
  double scale = 0.0;
  for (const double sample : want.samples) scale = std::max(scale, std::abs(sample));
  double worst = -1.0;
  size_t worst_at = 0;
  for (size_t s = 0; s < want.samples.size(); ++s) {
    double error = std::abs(double{values[s * static_cast<size_t>(want.step)]} - want.samples[s]);
    if (std::isnan(error)) error = INFINITY;
    if (error > worst) worst = error, worst_at = s;
  }
  const double allowed = tolerance * scale + ABSOLUTE;
  if (worst > allowed) {
    const size_t element = worst_at * static_cast<size_t>(want.step);
    return testing::AssertionFailure() << "element " << element << " is " << values[element] << ", expected "
                                       << want.samples[worst_at] << " within " << allowed;
  }
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (!(std::abs(sum - want.sum) <= tolerance * want.abs_sum + ABSOLUTE))
    return testing::AssertionFailure()
           << "sum is " << sum << ", expected " << want.sum << " within " << tolerance * want.abs_sum;
  return testing::AssertionSuccess();
}

Shape shape_of(const nlohmann::json& json) { return {json.at(0), json.at(1), json.at(2), json.at(3)}; }

Attributes attributes_of(const nlohmann::json& json) {
  Attributes attrs;
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean())
      attrs.set(key, value.get<bool>());
    else if (value.is_number_integer())
      attrs.set(key, value.get<int64_t>());
    else if (value.is_number())
      attrs.set(key, value.get<double>());
    else
      attrs.set(key, value.get<std::string>());
  }
  return attrs;
}

OpCase op_case_of(const nlohmann::json& json) {
  OpCase c;
  c.op = json.at("op");
  c.layer = json.at("name");
  c.attrs = attributes_of(json.at("attrs"));
  for (const auto& shape : json.at("x")) c.x.push_back(shape_of(shape));
  c.salt = json.at("salt");
  c.reads_network_input = json.value("reads_network_input", false);
  c.needs_dx = json.value("needs_dx", std::vector<bool>{});
  c.flatten_x = json.value("flatten_x", false);
  c.x_scale = json.value("x_scale", 1.0);
  c.x_shift = json.value("x_shift", 0.0);
  c.label_smoothing = json.value("label_smoothing", 0.0f);
  c.loss_scale = json.value("loss_scale", 1.0f);
  c.labels = json.value("labels", std::vector<int32_t>{});
  return c;
}

}  // namespace tr::test
