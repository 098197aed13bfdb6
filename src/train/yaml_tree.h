/// YAML as a plain value whose every part knows where it came from, so that overrides can be merged into a
/// file and each mistake still names its place. Parsing is yaml-cpp's; writing is our own because strings
/// are bytes here (a path need not be UTF-8, and yaml-cpp's emitter would replace such bytes).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tr {

/// What is wrong with a recipe, in the order it was found.
class Mistakes {
 public:
  void add(const std::string& place, const std::string& text) { lines_.push_back(place + ": " + text); }
  bool empty() const { return lines_.empty(); }
  size_t count() const { return lines_.size(); }
  /// Throws one RecipeError with a line for each mistake, if there are any.
  void raise() const;

 private:
  std::vector<std::string> lines_;
};

struct YamlTree {
  enum class Kind : uint8_t { NONE, SCALAR, LIST, MAP };
  Kind kind = Kind::NONE;
  std::string place;  ///< "recipe.yaml:12" or "override 'a.b=3'"
  std::string scalar;
  bool is_text = false;            ///< a scalar in quotes: never a number or a boolean
  std::string key, key_place;      ///< as the child of a map
  std::vector<YamlTree> children;  ///< of a list or a map

  YamlTree* find(std::string_view name);
  const YamlTree* find(std::string_view name) const { return const_cast<YamlTree*>(this)->find(name); }
  void erase(std::string_view name);
  /// Adds to a map, or replaces in it.
  void set(std::string_view name, YamlTree value);
};

YamlTree yaml_scalar(std::string text);  ///< a number or boolean, already as text
YamlTree yaml_text(std::string text);    ///< a string, whatever it looks like
YamlTree yaml_list(std::vector<YamlTree> children = {});
YamlTree yaml_map();

/// "a map", "a list", "'abc'", "nothing": for "expected …, got …".
std::string describe(const YamlTree& tree);

/// `place` turns a line number (from 1) into text. Malformed YAML, duplicate keys, keys that are not
/// scalars and more than one document become mistakes.
YamlTree parse_yaml(const std::string& text, const std::function<std::string(int)>& place,
                    Mistakes& mistakes);
/// Sections of a document in block style, what is inside them on one line where it is flat.
std::string write_yaml(const YamlTree& document);
/// A scalar or a flat list or map on one line.
std::string write_yaml_inline(const YamlTree& tree);

}  // namespace tr
