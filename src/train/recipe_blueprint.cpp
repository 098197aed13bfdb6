#include "train/recipe_blueprint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "train/recipe_values.h"

namespace tr {

namespace {

using Kind = YamlTree::Kind;

/// Nested repeats multiply; far above any network that trains.
constexpr int64_t MAX_LAYERS = 100'000;

int64_t count_layers(const BluePrint& print) {
  int64_t count = 1;
  for (const BluePrint& child : print.children) count += count_layers(child);
  return count;
}

BluePrint parse_layer(const YamlTree& item, Mistakes& mistakes);

/// "" and a mistake unless it is a name that can be part of a parameter's.
std::string read_name(const YamlTree& value, Mistakes& mistakes) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  if (value.kind == Kind::SCALAR && !value.scalar.empty() &&
      std::all_of(value.scalar.begin(), value.scalar.end(), fits))
    return value.scalar;
  mistakes.add(value.place,
               cat("a layer's name is made of letters, digits, '_', '-' and '.', got ", describe(value)));
  return "";
}

/// Children without a name are called by their index, so a name may also collide with one.
void check_sibling_names(const BluePrint& parent, Mistakes& mistakes) {
  std::set<std::string> seen;
  for (size_t i = 0; i < parent.children.size(); ++i) {
    const BluePrint& child = parent.children[i];
    const std::string name = child.name.empty() ? std::to_string(i) : child.name;
    if (name == NO_LEVEL) continue;  // named among its parent's, which the compiler checks
    if (!seen.insert(name).second)
      mistakes.add(child.where, cat("two layers side by side are called '", name, "'; rename one"));
  }
}

BluePrint read_sequence(const YamlTree& list, Mistakes& mistakes) {
  BluePrint sequence;
  sequence.where = list.place;
  if (list.kind != Kind::LIST || list.children.empty()) {
    mistakes.add(list.place, cat("expected a list of layers, got ",
                                 list.kind == Kind::LIST ? "an empty one" : describe(list)));
    return sequence;
  }
  for (const YamlTree& item : list.children) sequence.children.push_back(parse_layer(item, mistakes));
  check_sibling_names(sequence, mistakes);
  return sequence;
}

/// The keys of a block (`seq`, `repeat`, `residual`, `branches`), each at most once; null where absent.
struct BlockKeys {
  const YamlTree* name = nullptr;
  const YamlTree* layers = nullptr;
  const YamlTree* times = nullptr;
  const YamlTree* projection = nullptr;
  const YamlTree* join = nullptr;
};

BlockKeys read_block_keys(const YamlTree& block, const std::vector<std::string>& known, Mistakes& mistakes) {
  BlockKeys keys;
  if (block.kind != Kind::MAP) {
    mistakes.add(block.place, cat(block.key, ": expected a map with the key layers, got ", describe(block)));
    return keys;
  }
  for (const YamlTree& entry : block.children)
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      const std::string near = nearest_name(entry.key, known);
      mistakes.add(entry.key_place, cat("unknown key '", entry.key, "' of ", block.key,
                                        near.empty() ? "" : cat("; did you mean '", near, "'?")));
    }
  keys.name = block.find("name");
  keys.layers = block.find("layers");
  keys.times = block.find("times");
  keys.projection = block.find("projection");
  keys.join = block.find("join");
  if (keys.layers == nullptr) mistakes.add(block.place, cat(block.key, ": the key layers is missing"));
  return keys;
}

BluePrint parse_seq(const YamlTree& block, Mistakes& mistakes) {
  // A bare list of layers needs no name.
  if (block.kind == Kind::LIST) return read_sequence(block, mistakes);
  const BlockKeys keys = read_block_keys(block, {"name", "layers"}, mistakes);
  return keys.layers == nullptr ? BluePrint{} : read_sequence(*keys.layers, mistakes);
}

BluePrint parse_repeat(const YamlTree& block, Mistakes& mistakes) {
  const BlockKeys keys = read_block_keys(block, {"name", "times", "layers"}, mistakes);
  if (keys.layers == nullptr) return {};
  BluePrint body = read_sequence(*keys.layers, mistakes);
  // One layer is repeated as it is, several as a sequence: 0.weight, or 0.0.weight.
  if (body.children.size() == 1) body = BluePrint(body.children[0]);
  if (keys.times == nullptr) {
    mistakes.add(block.place, "repeat: the key times is missing");
    return {};
  }
  const std::optional<int64_t> times =
      keys.times->kind == Kind::SCALAR ? read_integer(keys.times->scalar) : std::nullopt;
  if (!times || *times < 1) {
    mistakes.add(keys.times->place,
                 cat("repeat: times is ", describe(*keys.times), ", expected an integer >= 1"));
    return {};
  }
  if (*times > MAX_LAYERS / count_layers(body)) {
    mistakes.add(keys.times->place, cat("repeat: more than ", MAX_LAYERS, " layers"));
    return {};
  }
  return repeat(*times, body);
}

/// A list of layers, or one layer that may have a name of its own.
BluePrint read_body(const YamlTree& value, Mistakes& mistakes) {
  return value.kind == Kind::MAP ? parse_layer(value, mistakes) : read_sequence(value, mistakes);
}

BluePrint parse_residual(const YamlTree& block, Mistakes& mistakes) {
  const BlockKeys keys = read_block_keys(block, {"name", "layers", "projection"}, mistakes);
  if (keys.layers == nullptr) return {};
  BluePrint body = read_body(*keys.layers, mistakes);
  if (keys.projection == nullptr) return residual(std::move(body));
  BluePrint projection = read_body(*keys.projection, mistakes);
  const std::string name = projection.name.empty() ? "downsample" : projection.name;
  for (const BluePrint& child : body.children)
    if (body.name.empty() && child.name == name)
      mistakes.add(child.where, cat("'", name, "' is the name of the block's projection; rename this layer"));
  return residual(std::move(body), std::move(projection));
}

BluePrint parse_branches(const YamlTree& block, Mistakes& mistakes) {
  const BlockKeys keys = read_block_keys(block, {"name", "join", "layers"}, mistakes);
  if (keys.layers == nullptr) return {};
  std::vector<BluePrint> children = read_sequence(*keys.layers, mistakes).children;
  if (children.empty()) return {};
  if (keys.join == nullptr) return branches("concat", std::move(children));
  if (keys.join->kind == Kind::SCALAR && !keys.join->scalar.empty())
    return branches(keys.join->scalar, std::move(children));
  mistakes.add(keys.join->place,
               cat("branches: join is ", describe(*keys.join), ", expected an operator such as concat"));
  return {};
}

BluePrint parse_operator(const YamlTree& entry, Mistakes& mistakes) {
  BluePrint layer = op(entry.key);
  switch (entry.kind) {
    case Kind::NONE:
      break;
    case Kind::SCALAR:
      layer.attrs.set("#0", read_attribute(entry));
      break;
    case Kind::LIST:
    case Kind::MAP:
      for (size_t i = 0; i < entry.children.size(); ++i) {
        const YamlTree& value = entry.children[i];
        const std::string name = entry.kind == Kind::LIST ? cat('#', i) : value.key;
        if (name == "name") continue;
        if (value.kind == Kind::SCALAR)
          layer.attrs.set(name, read_attribute(value));
        else
          mistakes.add(value.place, cat(entry.key, ": '", name, "' takes one value, got ", describe(value)));
      }
      break;
  }
  return layer;
}

BluePrint parse_layer(const YamlTree& item, Mistakes& mistakes) {
  YamlTree entry;
  if (item.kind == Kind::SCALAR && !item.scalar.empty()) {
    entry.place = item.place;
    entry.key = item.scalar;
  } else if (item.kind == Kind::MAP && item.children.size() == 1) {
    entry = item.children[0];
  } else {
    std::string hint;
    if (item.kind == Kind::MAP && item.children.size() > 1)
      hint = cat(" with ", item.children.size(), " keys; write '", item.children[0].key, ": {...}'");
    mistakes.add(item.place,
                 cat("a layer is an operator's name or 'name: attributes', got ", describe(item), hint));
    return {};
  }

  BluePrint layer;
  if (entry.key == "seq")
    layer = parse_seq(entry, mistakes);
  else if (entry.key == "repeat")
    layer = parse_repeat(entry, mistakes);
  else if (entry.key == "residual")
    layer = parse_residual(entry, mistakes);
  else if (entry.key == "branches")
    layer = parse_branches(entry, mistakes);
  else
    layer = parse_operator(entry, mistakes);
  layer.where = item.place;
  if (const YamlTree* name = entry.find("name")) layer.name = read_name(*name, mistakes);
  return layer;
}

YamlTree write_layer(const BluePrint& layer);

YamlTree write_list(const std::vector<BluePrint>& layers) {
  YamlTree list = yaml_list();
  for (const BluePrint& layer : layers) list.children.push_back(write_layer(layer));
  return list;
}

bool is_plain_sequence(const BluePrint& print) {
  return print.kind == BluePrint::Kind::SEQ && print.name.empty();
}

YamlTree write_body(const BluePrint& body) {
  return is_plain_sequence(body) ? write_list(body.children) : write_layer(body);
}

bool is_positional(const Attributes& attrs) {
  for (size_t i = 0; i < attrs.items().size(); ++i)
    if (attrs.items()[i].first != cat('#', i)) return false;
  return true;
}

std::string_view block_name(BluePrint::Kind kind) {
  constexpr std::array<std::string_view, 4> NAMES{"", "seq", "residual", "branches"};
  return NAMES.at(static_cast<size_t>(kind));
}

YamlTree write_layer(const BluePrint& layer) {
  const bool is_op = layer.kind == BluePrint::Kind::OP;
  const auto& items = layer.attrs.items();
  if (is_op && layer.name.empty() && items.empty()) return yaml_text(layer.op);

  YamlTree value = yaml_map();
  if (is_op && layer.name.empty() && is_positional(layer.attrs)) {
    value = yaml_list();
    for (const auto& item : items) value.children.push_back(write_attribute(item.second));
  } else {
    if (!layer.name.empty()) value.set("name", yaml_text(layer.name));
    for (const auto& [name, attribute] : items) value.set(name, write_attribute(attribute));
    if (layer.kind == BluePrint::Kind::BRANCHES) value.set("join", yaml_text(layer.op));
    if (layer.kind == BluePrint::Kind::SEQ || layer.kind == BluePrint::Kind::BRANCHES)
      value.set("layers", write_list(layer.children));
    if (layer.kind == BluePrint::Kind::RESIDUAL) {
      value.set("layers", write_body(layer.children.at(0)));
      if (layer.children.size() > 1) value.set("projection", write_body(layer.children[1]));
    }
  }
  YamlTree item = yaml_map();
  item.set(is_op ? layer.op : std::string(block_name(layer.kind)), std::move(value));
  return item;
}

}  // namespace

BluePrint read_layers(const YamlTree& list, Mistakes& mistakes) {
  BluePrint layers = read_sequence(list, mistakes);
  if (count_layers(layers) > MAX_LAYERS) mistakes.add(list.place, cat("more than ", MAX_LAYERS, " layers"));
  return layers;
}

YamlTree write_layers(const BluePrint& layers) {
  return write_list(is_plain_sequence(layers) ? layers.children : std::vector<BluePrint>{layers});
}

}  // namespace tr
