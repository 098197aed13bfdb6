/// The zoo: networks by name, as blueprints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/graph/blueprint.h"

namespace tr {

/// What a network was designed for. Data of another size may do as well, if its layers accept them.
struct ModelInput {
  int64_t channels, height, width, classes;
};

std::vector<std::string> model_names();
/// The functions below throw RecipeError with the nearest known name.
BluePrint make_model(std::string_view name, int64_t classes);
/// One line for people.
std::string_view model_summary(std::string_view name);
ModelInput model_input(std::string_view name);

}  // namespace tr
