/// The zoo: networks by name, as blueprints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/graph/blueprint.h"

namespace tr {

/// What a network was designed for. Data of another size may do as well, if its layers accept them.
struct ModelInput {
  int64_t channels, height, width, classes;
};

/// What may differ from the network as published; nothing: as published.
struct ModelOptions {
  std::optional<double> dropout;    ///< probability of every dropout layer
  std::optional<double> drop_path;  ///< of stochastic depth in the last block; those before have less
  friend bool operator==(const ModelOptions&, const ModelOptions&) = default;
};

std::vector<std::string> model_names();
/// The functions below throw RecipeError with the nearest known name.
/// ValueError for an option that the network has no layer for.
BluePrint make_model(std::string_view name, int64_t classes, const ModelOptions& options = {});
/// The values as published; nothing where the network has no such layer.
ModelOptions published_options(std::string_view name);
/// One line for people.
std::string_view model_summary(std::string_view name);
ModelInput model_input(std::string_view name);

}  // namespace tr
