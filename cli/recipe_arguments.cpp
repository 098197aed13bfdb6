#include "recipe_arguments.h"

#include <iostream>
#include <iterator>

namespace tr::cli {

void add_recipe_arguments(CLI::App& verb, RecipeArguments& arguments) {
  verb.add_option("RECIPE", arguments.file, "recipe in YAML; - reads standard input")
      ->required()
      ->option_text(" ");
  verb.add_option("OVERRIDES", arguments.overrides,
                  "values that replace the recipe's: train.epochs=3 data.mean=[0.5]")
      ->option_text("key=value ...");
}

Recipe read_recipe(const RecipeArguments& arguments) {
  if (arguments.file != "-") return load_recipe(arguments.file, arguments.overrides);
  const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  return parse_recipe(text, "standard input", arguments.overrides);
}

}  // namespace tr::cli
