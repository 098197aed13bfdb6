/// Two plans side by side: what each needs, region by region, and which tensors make the difference.
///
///   std::cout << plan_diff_text({"a.json", text_of_a}, {"batch 128", plan_json(model)});
#pragma once

#include <string>

namespace tr {

struct PlanSide {
  std::string title;  ///< for the reader and for errors: a file, a recipe with its overrides
  std::string json;   ///< as plan_json() makes it
};

/// UTF-8, ends with a newline. ValueError, naming the side, for text that is not JSON or was cut off, JSON
/// that is not a plan, and a plan of a newer schema.
std::string plan_diff_text(const PlanSide& a, const PlanSide& b);

/// The same as one JSON object on one line, without a newline (docs/json.md).
std::string plan_diff_json(const PlanSide& a, const PlanSide& b);

}  // namespace tr
