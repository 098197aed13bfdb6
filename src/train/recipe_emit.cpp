#include "renaissance/core/error.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

bool is_section_key(const RecipeKey& key) { return key.key.find('.') != std::string::npos; }

/// Absent lists and networks are left out; everything else is stated, defaults too.
bool is_absent(const YamlTree& value) {
  return value.kind == YamlTree::Kind::NONE ||
         (value.kind == YamlTree::Kind::LIST && value.children.empty()) ||
         (value.kind == YamlTree::Kind::SCALAR && value.is_text && value.scalar.empty());
}

std::string default_text(const RecipeKey& key) {
  Recipe defaults;
  const YamlTree value = key.write(defaults);
  return is_absent(value) ? "" : cat('`', write_yaml_inline(value), '`');
}

}  // namespace

std::string recipe_to_yaml(const Recipe& recipe) {
  Recipe copy = recipe;  // the table's members are mutable references
  YamlTree document = yaml_map();
  for (const RecipeKey& key : recipe_keys()) {
    YamlTree value = key.write(copy);
    if (is_absent(value)) continue;
    if (!is_section_key(key)) {
      document.set(key.key, std::move(value));
      continue;
    }
    const size_t dot = key.key.find('.');
    const std::string section = key.key.substr(0, dot);
    if (document.find(section) == nullptr) document.set(section, yaml_map());
    document.find(section)->set(key.key.substr(dot + 1), std::move(value));
  }
  return write_yaml(document);
}

std::string recipe_reference() {
  std::string text;
  const auto begin = [&](const std::string& title) {
    text += cat(text.empty() ? "" : "\n", "### ", title,
                "\n\n| key | value | default | meaning |\n|---|---|---|---|\n");
  };
  const auto row = [&](const RecipeKey& key) {
    text += cat("| `", key.key, "` | ", key.type, " | ", default_text(key), " | ", key.help, " |\n");
  };
  begin("top level");
  for (const RecipeKey& key : recipe_keys())
    if (!is_section_key(key)) row(key);
  for (const RecipeSection& section : recipe_sections()) {
    begin(cat('`', section.name, '`'));
    for (const RecipeKey& key : recipe_keys())
      if (key.key.starts_with(section.name + ".")) row(key);
  }
  return text;
}

}  // namespace tr
