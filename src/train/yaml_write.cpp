#include <algorithm>
#include <array>

#include "renaissance/core/error.h"
#include "train/recipe_values.h"
#include "train/yaml_tree.h"

namespace tr {

namespace {

bool is_plain(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
  };
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/')) return false;
  if (!std::all_of(text.begin(), text.end(), is_inner)) return false;
  constexpr std::array<std::string_view, 7> NOT_TEXT{"y", "n", "Y", "N", "null", "Null", "NULL"};
  return !read_flag(text) && std::find(NOT_TEXT.begin(), NOT_TEXT.end(), text) == NOT_TEXT.end();
}

std::string write_text(const std::string& text) {
  if (is_plain(text)) return text;
  constexpr std::string_view HEX = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      quoted += {'\\', 'x', HEX[byte >> 4], HEX[byte & 15]};
    else
      quoted += c;
  }
  return quoted + '"';
}

bool is_leaf(const YamlTree& tree) {
  return tree.kind == YamlTree::Kind::NONE || tree.kind == YamlTree::Kind::SCALAR;
}

/// `depth` 0 is the document, 1 a section: those are always in block style.
std::vector<std::string> block_lines(const YamlTree& tree, int depth) {
  std::vector<std::string> lines;
  for (const YamlTree& child : tree.children) {
    const bool section = depth == 0 && child.kind == YamlTree::Kind::MAP;
    const bool flat = !section && std::all_of(child.children.begin(), child.children.end(), is_leaf);
    const bool in_map = tree.kind == YamlTree::Kind::MAP;
    if (flat) {
      lines.push_back((in_map ? write_text(child.key) + ": " : "- ") + write_yaml_inline(child));
      continue;
    }
    if (in_map) lines.push_back(write_text(child.key) + ":");
    bool first = true;
    for (const std::string& line : block_lines(child, depth + 1)) {
      lines.push_back((in_map || !first ? "  " : "- ") + line);
      first = false;
    }
  }
  return lines;
}

}  // namespace

std::string write_yaml_inline(const YamlTree& tree) {
  if (tree.kind == YamlTree::Kind::NONE) return "null";
  if (tree.kind == YamlTree::Kind::SCALAR) return tree.is_text ? write_text(tree.scalar) : tree.scalar;
  const bool is_map = tree.kind == YamlTree::Kind::MAP;
  std::string text = is_map ? "{" : "[";
  for (const YamlTree& child : tree.children) {
    if (text.size() > 1) text += ", ";
    if (is_map) text += write_text(child.key) + ": ";
    text += write_yaml_inline(child);
  }
  return text + (is_map ? '}' : ']');
}

std::string write_yaml(const YamlTree& document) {
  std::string text;
  for (const std::string& line : block_lines(document, 0)) text += line + '\n';
  return text;
}

}  // namespace tr
