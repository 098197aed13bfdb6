#include "train/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "renaissance/core/error.h"

namespace tr {

namespace {

/// Aliases can make a document endless or huge.
constexpr int MAX_DEPTH = 64;
constexpr int MAX_NODES = 100'000;

class Reader {
 public:
  Reader(const std::function<std::string(int)>& place, Mistakes& mistakes)
      : place_(place), mistakes_(mistakes) {}

  /// `fallback` is the place of a node without one, such as the value that is missing after a key.
  YamlTree read(const YAML::Node& node, const std::string& path, const std::string& fallback, int depth) {
    YamlTree tree;
    tree.place = place_of(node, fallback);
    if (depth > MAX_DEPTH || ++nodes_ > MAX_NODES) {
      if (!gave_up_)
        mistakes_.add(tree.place, depth > MAX_DEPTH
                                      ? cat("nested more than ", MAX_DEPTH, " levels deep")
                                      : cat("more than ", MAX_NODES, " values in one document"));
      gave_up_ = true;
    }
    if (gave_up_) return tree;
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        tree.kind = YamlTree::Kind::SCALAR;
        tree.scalar = node.Scalar();
        tree.is_text = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
        break;
      case YAML::NodeType::Sequence:
        tree.kind = YamlTree::Kind::LIST;
        for (const YAML::Node& item : node) tree.children.push_back(read(item, path, tree.place, depth + 1));
        break;
      case YAML::NodeType::Map:
        read_map(node, path, depth, tree);
        break;
    }
    return tree;
  }

 private:
  std::string place_of(const YAML::Node& node, const std::string& fallback) const {
    return node.Mark().is_null() ? fallback : place_(node.Mark().line + 1);
  }

  void read_map(const YAML::Node& node, const std::string& path, int depth, YamlTree& tree) {
    tree.kind = YamlTree::Kind::MAP;
    for (const auto& entry : node) {
      const std::string key_place = place_of(entry.first, tree.place);
      if (!entry.first.IsScalar()) {
        mistakes_.add(key_place, "a key must be a name");
        continue;
      }
      const std::string& key = entry.first.Scalar();
      const std::string key_path = path.empty() ? key : cat(path, '.', key);
      YamlTree value = read(entry.second, key_path, key_place, depth + 1);
      value.key = key;
      value.key_place = key_place;
      if (const YamlTree* first = tree.find(key))
        mistakes_.add(key_place, cat("duplicate key '", key_path, "'; first given at ", first->key_place));
      else
        tree.children.push_back(std::move(value));
    }
  }

  const std::function<std::string(int)>& place_;
  Mistakes& mistakes_;
  int nodes_ = 0;
  bool gave_up_ = false;
};

}  // namespace

void Mistakes::raise() const {
  if (lines_.empty()) return;
  std::string text;
  for (const std::string& line : lines_) text += (text.empty() ? "" : "\n") + line;
  throw Error(ErrorKind::RecipeError, text);
}

YamlTree* YamlTree::find(std::string_view name) {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const YamlTree& child) { return child.key == name; });
  return kind != Kind::MAP || found == children.end() ? nullptr : &*found;
}

void YamlTree::erase(std::string_view name) {
  std::erase_if(children, [&](const YamlTree& child) { return child.key == name; });
}

void YamlTree::set(std::string_view name, YamlTree value) {
  value.key = name;
  if (value.key_place.empty()) value.key_place = value.place;
  if (YamlTree* present = find(name))
    *present = std::move(value);
  else
    children.push_back(std::move(value));
}

YamlTree yaml_scalar(std::string text) {
  YamlTree tree;
  tree.kind = YamlTree::Kind::SCALAR;
  tree.scalar = std::move(text);
  return tree;
}

YamlTree yaml_text(std::string text) {
  YamlTree tree = yaml_scalar(std::move(text));
  tree.is_text = true;
  return tree;
}

YamlTree yaml_list(std::vector<YamlTree> children) {
  YamlTree tree;
  tree.kind = YamlTree::Kind::LIST;
  tree.children = std::move(children);
  return tree;
}

YamlTree yaml_map() {
  YamlTree tree;
  tree.kind = YamlTree::Kind::MAP;
  return tree;
}

std::string describe(const YamlTree& tree) {
  switch (tree.kind) {
    case YamlTree::Kind::NONE:
      return "nothing";
    case YamlTree::Kind::SCALAR:
      return cat('\'', tree.scalar, '\'');
    case YamlTree::Kind::LIST:
      return "a list";
    case YamlTree::Kind::MAP:
      return "a map";
  }
  return "?";
}

namespace {

/// Where `text` has a character that YAML does not allow; yaml-cpp takes one of them for the text's end.
std::optional<size_t> forbidden_character(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) return i;
  }
  return std::nullopt;
}

/// Of the first two documents, where they begin.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { starts.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  std::vector<YAML::Mark> starts;
};

/// YAML::LoadAll() finds no end of documents in a text that begins with `}`, `]` or a comma.
std::vector<YAML::Mark> first_documents(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentStarts documents;
  while (documents.starts.size() < 2 && parser.HandleNextDocument(documents)) {
  }
  return documents.starts;
}

std::string hexadecimal(char c) {
  constexpr std::string_view DIGITS = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(c);
  return {'0', 'x', DIGITS[value >> 4], DIGITS[value & 15]};
}

}  // namespace

YamlTree parse_yaml(const std::string& text, const std::function<std::string(int)>& place,
                    Mistakes& mistakes) {
  YamlTree empty;
  empty.place = place(1);
  if (const std::optional<size_t> found = forbidden_character(text)) {
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*found), '\n');
    mistakes.add(
        place(static_cast<int>(lines) + 1),
        cat("holds the control character ", hexadecimal(text[*found]), "; a recipe is text, in UTF-8"));
    return empty;
  }
  try {
    const std::vector<YAML::Mark> documents = first_documents(text);
    if (documents.empty()) return empty;
    if (documents.size() > 1)
      mistakes.add(place(documents[1].line + 1),
                   documents[1].pos == documents[0].pos
                       ? "malformed YAML: ends a list or a map that did not begin"
                       : "a second YAML document; a recipe is one document");
    return Reader(place, mistakes).read(YAML::Load(text), "", empty.place, 0);
  } catch (const YAML::Exception& error) {
    mistakes.add(place(error.mark.is_null() ? 1 : error.mark.line + 1), cat("malformed YAML: ", error.msg));
    return empty;
  }
}

}  // namespace tr
