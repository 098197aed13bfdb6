/// The one table of a recipe's keys: parsing, writing, range checks, suggestions and docs/recipes.md all
/// come from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/train/recipe.h"
#include "train/yaml_tree.h"

namespace tr {

struct RecipeKey {
  std::string key;   ///< "train.epochs"; without a dot at the top level
  std::string type;  ///< for people, range included
  std::string help;
  std::string synonyms;  ///< what other tools call it, for suggestions only; separated by spaces
  /// Adds a mistake and leaves the member alone when the value is of another type.
  std::function<void(const YamlTree&, Recipe&, Mistakes&)> read;
  std::function<YamlTree(Recipe&)> write;
  /// What is wrong with the member's value, "" when nothing is.
  std::function<std::string(Recipe&)> check;
};
std::vector<RecipeKey> recipe_keys();

/// A section, and the key that a bare value means: `data: synthetic` is `data: {source: synthetic}`.
struct RecipeSection {
  std::string name;
  std::string scalar_key, list_key;  ///< "" where a bare scalar or list means nothing
};
std::vector<RecipeSection> recipe_sections();

/// A mistake that concerns a key, or a section where something is missing.
struct KeyMistake {
  std::string key;
  std::string text;
};
/// Range and cross-field mistakes of a recipe of any origin.
std::vector<KeyMistake> find_mistakes(const Recipe& recipe);

/// "; did you mean 'train.epochs'?" for a key that is not in the table, or the keys of its section.
std::string suggest_key(const std::string& unknown);

/// Applies `key=value` to the tree of a document whose shorthands are expanded.
void apply_override(const std::string& text, YamlTree& document, Mistakes& mistakes);
/// Turns the bare value of a section into a map. Other values stay as they are.
void expand_shorthand(const RecipeSection& section, YamlTree& value);

/// Markdown: every section's keys with type, default and meaning; docs/recipes.md contains it.
std::string recipe_reference();

}  // namespace tr
