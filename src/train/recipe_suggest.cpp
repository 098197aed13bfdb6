#include <sstream>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

std::string section_of(const std::string& key) {
  const size_t dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string leaf_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool has_word(const std::string& words, const std::string& word) {
  std::istringstream in(words);
  for (std::string each; in >> each;)
    if (each == word) return true;
  return false;
}

/// The same or the nearest name in the same section, then anywhere.
std::string nearest_key(const std::string& unknown) {
  const std::vector<RecipeKey> keys = recipe_keys();
  const std::string section = section_of(unknown), leaf = leaf_of(unknown);
  std::vector<std::string> beside, everywhere;
  for (const RecipeKey& key : keys) {
    everywhere.push_back(key.key);
    if (section_of(key.key) != section) continue;
    if (has_word(key.synonyms, leaf)) return key.key;
    beside.push_back(leaf_of(key.key));
  }
  if (section.empty())
    for (const RecipeSection& each : recipe_sections()) beside.push_back(each.name);
  if (const std::string near = nearest_name(leaf, beside); !near.empty())
    return section.empty() ? near : cat(section, '.', near);
  for (const RecipeKey& key : keys)
    if (leaf_of(key.key) == leaf || has_word(key.synonyms, leaf)) return key.key;
  return nearest_name(unknown, everywhere);
}

}  // namespace

std::string suggest_key(const std::string& unknown) {
  if (const std::string near = nearest_key(unknown); !near.empty())
    return cat("; did you mean '", near, "'?");
  const std::string section = section_of(unknown);
  std::string known;
  const auto list = [&](const std::string& name) { known += (known.empty() ? "" : ", ") + name; };
  for (const RecipeKey& key : recipe_keys())
    if (section_of(key.key) == section) list(leaf_of(key.key));
  if (section.empty())
    for (const RecipeSection& each : recipe_sections()) list(each.name);
  return cat("; known here: ", known);
}

}  // namespace tr
