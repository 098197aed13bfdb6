/// `RECIPE [key=value …]`, as several verbs take it.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "renaissance/train/recipe.h"

namespace tr::cli {

struct RecipeArguments {
  std::string file;  ///< "-" is standard input
  std::vector<std::string> overrides;
};

void add_recipe_arguments(CLI::App& verb, RecipeArguments& arguments);
Recipe read_recipe(const RecipeArguments& arguments);

}  // namespace tr::cli
