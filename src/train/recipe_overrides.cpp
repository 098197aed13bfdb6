#include <algorithm>

#include "renaissance/core/error.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

void set_key(const std::vector<std::string>& path, YamlTree value, YamlTree& document) {
  YamlTree* map = &document;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    YamlTree* child = map->find(path[i]);
    if (child == nullptr || child->kind != YamlTree::Kind::MAP) {
      YamlTree empty = yaml_map();
      empty.place = value.place;
      map->set(path[i], std::move(empty));
      child = map->find(path[i]);
    }
    map = child;
  }
  // A network is either named or written out: asking for one drops the other.
  if (path.size() == 2 && path[0] == "model" && path[1] == "name") map->erase("layers");
  if (path.size() == 2 && path[0] == "model" && path[1] == "layers") map->erase("name");
  map->set(path.back(), std::move(value));
}

std::vector<std::string> split(const std::string& key) {
  std::vector<std::string> parts{""};
  for (const char c : key) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

void expand_shorthand(const RecipeSection& section, YamlTree& value) {
  const bool is_scalar = value.kind == YamlTree::Kind::SCALAR, is_list = value.kind == YamlTree::Kind::LIST;
  const std::string& key = is_scalar ? section.scalar_key : section.list_key;
  if ((!is_scalar && !is_list) || key.empty()) return;
  YamlTree map = yaml_map();
  map.place = value.place;
  map.key = value.key;
  map.key_place = value.key_place;
  YamlTree inner = value;
  inner.key_place = value.place;
  map.set(key, std::move(inner));
  value = std::move(map);
}

void apply_override(const std::string& text, YamlTree& document, Mistakes& mistakes) {
  const std::string place = cat("override '", text, "'");
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::vector<std::string> path = split(key);
  if (equals == std::string::npos || std::find(path.begin(), path.end(), "") != path.end()) {
    mistakes.add(place, "expected key=value, such as train.epochs=3");
    return;
  }
  const size_t before = mistakes.count();
  YamlTree value = parse_yaml(
      text.substr(equals + 1), [&](int) { return place; }, mistakes);
  if (mistakes.count() > before) return;
  if (equals + 1 == text.size()) {  // `run_dir=` means the empty text
    value = yaml_text("");
    value.place = place;
  }

  const auto sections = recipe_sections();
  const auto section = std::find_if(sections.begin(), sections.end(),
                                    [&](const RecipeSection& each) { return each.name == key; });
  if (section != sections.end()) {
    expand_shorthand(*section, value);
    // A section given as a whole changes what it names and keeps the rest: data=synthetic keeps the sizes.
    if (value.kind == YamlTree::Kind::MAP) {
      for (const YamlTree& child : value.children) set_key({key, child.key}, child, document);
      return;
    }
  }
  set_key(path, std::move(value), document);
}

}  // namespace tr
