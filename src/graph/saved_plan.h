/// A plan's JSON form, read back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tr {

/// The fields that plan_diff_text() and plan_html() use have the types, and the places that they name exist,
/// as plan_json() writes them; other fields may be anything. ValueError with `title` and the field for text
/// that is not JSON or was cut off, JSON that is not a plan, and a plan of a newer schema.
nlohmann::ordered_json read_saved_plan(const std::string& title, const std::string& text);

}  // namespace tr
