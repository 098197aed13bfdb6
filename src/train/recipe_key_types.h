/// Builders of table entries, one per type of value.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "train/recipe_keys.h"
#include "train/recipe_values.h"

namespace tr {

/// The member a key stands for.
template <typename T>
using Member = T& (*)(Recipe&);

/// low ≤ value ≤ high, or low < value and value < high where open. Never infinite or NaN.
struct NumberRange {
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool open_low = false, open_high = false;
  /// ">= 0", "> 0", "0 to 1", "0 to below 1", "" when unbounded.
  std::string str() const;
  bool holds(double value) const;
};

RecipeKey flag_key(std::string key, Member<bool> member, std::string help);
RecipeKey text_key(std::string key, Member<std::string> member, std::string help);
/// A text, or a list of them.
RecipeKey texts_key(std::string key, Member<std::vector<std::string>> member, std::string help);
RecipeKey path_key(std::string key, Member<std::filesystem::path> member, std::string help);
RecipeKey seed_key(std::string key, Member<uint64_t> member, std::string help);
RecipeKey number_key(std::string key, Member<double> member, const NumberRange& range, std::string help);
/// Nothing while the key is not given.
RecipeKey optional_number_key(std::string key, Member<std::optional<double>> member, const NumberRange& range,
                              std::string help);
/// A number, or a list of them.
RecipeKey numbers_key(std::string key, Member<std::vector<double>> member, const NumberRange& range,
                      std::string help);
RecipeKey bytes_key(std::string key, Member<int64_t> member, std::string help);

/// "'train.epochs' expects an integer, got 'x'".
void add_type_mistake(const std::string& key, std::string_view expected, const YamlTree& value,
                      Mistakes& mistakes);

template <typename Int>
RecipeKey integer_key(std::string key, Member<Int> member, Int low, std::string help) {
  RecipeKey entry;
  entry.type = cat("integer >= ", low);
  entry.read = [key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    const auto number =
        value.kind == YamlTree::Kind::SCALAR && !value.is_text ? read_integer(value.scalar) : std::nullopt;
    if (number && *number >= std::numeric_limits<Int>::min() && *number <= std::numeric_limits<Int>::max())
      member(recipe) = static_cast<Int>(*number);
    else
      add_type_mistake(key, "an integer", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_scalar(std::to_string(member(recipe))); };
  entry.check = [key, member, low](Recipe& recipe) {
    // Sizes and counts meet 32-bit labels and library interfaces.
    constexpr int64_t HIGH = std::numeric_limits<int32_t>::max();
    const Int value = member(recipe);
    if (value < low) return cat("'", key, "' is ", value, ", expected at least ", low);
    if (value > HIGH) return cat("'", key, "' is ", value, ", expected at most ", HIGH);
    return std::string();
  };
  entry.key = std::move(key);
  entry.help = std::move(help);
  return entry;
}

template <typename E>
RecipeKey choice_key(std::string key, Member<E> member, std::vector<std::pair<std::string, E>> choices,
                     std::string help) {
  RecipeKey entry;
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    names.push_back(name);
    entry.type += (entry.type.empty() ? "" : ", ") + name;
  }
  entry.read = [key, member, choices, names, list = entry.type](const YamlTree& value, Recipe& recipe,
                                                                Mistakes& mistakes) {
    for (const auto& [name, choice] : choices)
      if (value.kind == YamlTree::Kind::SCALAR && value.scalar == name) {
        member(recipe) = choice;
        return;
      }
    const std::string near = value.kind == YamlTree::Kind::SCALAR ? nearest_name(value.scalar, names) : "";
    mistakes.add(value.place, cat("'", key, "' is ", describe(value), ", expected one of: ", list,
                                  near.empty() ? "" : cat("; did you mean '", near, "'?")));
  };
  entry.write = [member, choices](Recipe& recipe) {
    for (const auto& [name, choice] : choices)
      if (choice == member(recipe)) return yaml_text(name);
    return YamlTree{};
  };
  entry.check = [key, member, choices, list = entry.type](Recipe& recipe) {
    for (const auto& item : choices)
      if (item.second == member(recipe)) return std::string();
    return cat("'", key, "' is number ", static_cast<int>(member(recipe)), ", expected one of: ", list);
  };
  entry.key = std::move(key);
  entry.help = std::move(help);
  return entry;
}

}  // namespace tr
