#include "renaissance/graph/arch_plan.h"

#include <algorithm>
#include <set>

#include "renaissance/core/error.h"

namespace tr {

namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : cat(prefix, '.', name);
}

/// Of a child in the level `parent`; its place is its name where it has none.
std::string child_name(const std::string& parent, const BluePrint& child, std::string_view otherwise) {
  if (child.name == NO_LEVEL) return parent;
  return join(parent, child.name.empty() ? std::string(otherwise) : child.name);
}

/// Walks a blueprint depth first, giving names and values.
class Lowering {
 public:
  explicit Lowering(const Catalog& catalog) : catalog_(catalog) {}

  ArchPlan run(const BluePrint& model) {
    arch_.storage.push_back(0);
    arch_.output = visit(model, model.name, 0);
    TR_CHECK(!arch_.layers.empty() && arch_.storage[static_cast<size_t>(arch_.output)] != 0, RecipeError,
             "model: there is no layer between the input and the output");
    return std::move(arch_);
  }

 private:
  ValueId visit(const BluePrint& node, const std::string& name, ValueId input) {
    switch (node.kind) {
      case BluePrint::Kind::OP:
        return add_layer(node.op, node.attrs, name, {input}, node.where);
      case BluePrint::Kind::SEQ:
        return sequence(node, name, input);
      case BluePrint::Kind::RESIDUAL:
        return residual(node, name, input);
      case BluePrint::Kind::BRANCHES:
        return branches(node, name, input);
    }
    throw Error(ErrorKind::ValueError, "model: unknown kind of block");
  }

  ValueId sequence(const BluePrint& node, const std::string& name, ValueId value) {
    for (size_t i = 0; i < node.children.size(); ++i)
      value = visit(node.children[i], child_name(name, node.children[i], std::to_string(i)), value);
    return value;
  }

  ValueId branches(const BluePrint& node, const std::string& name, ValueId input) {
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < node.children.size(); ++i)
      outputs.push_back(
          visit(node.children[i], child_name(name, node.children[i], std::to_string(i)), input));
    return add_layer(node.op, {}, join(name, node.op), std::move(outputs), node.where);
  }

  ValueId residual(const BluePrint& node, const std::string& name, ValueId input) {
    TR_CHECK(node.children.size() == 1 || node.children.size() == 2, RecipeError,
             cat(prefix(node.where), "residual '", name, "' has ", node.children.size(),
                 " parts; it takes a body and at most one projection"));
    // The projection first: the body's last BatchNorm can then absorb the addition.
    ValueId shortcut = input;
    if (node.children.size() == 2)
      shortcut = visit(node.children[1], child_name(name, node.children[1], "downsample"), input);
    const BluePrint& body = node.children[0];
    const bool body_has_place = body.kind == BluePrint::Kind::OP && body.name.empty();
    const ValueId out = visit(body, child_name(name, body, body_has_place ? "0" : ""), input);
    return add_layer("add", {}, join(name, "add"), {out, shortcut}, node.where);
  }

  ValueId add_layer(const std::string& op, const Attributes& given, const std::string& name,
                    std::vector<ValueId> inputs, const std::string& where) {
    const std::string who = cat(prefix(where), "'", name, "'");
    TR_CHECK(!name.empty(), RecipeError,
             cat(prefix(where), op, ": a layer called '.' takes the name of its block, which has none here"));
    Layer layer;
    layer.name = name;
    layer.where = where;
    layer.inputs = std::move(inputs);
    try {
      layer.entry = &catalog_.find(op);
    } catch (const Error& error) {
      throw Error(error.kind(), cat(who, ": ", error.what()));
    }
    const OpSpec& spec = *layer.entry->spec;
    layer.attrs = complete_attributes(spec, given, who);
    const int takes = spec.num_inputs(layer.attrs);
    TR_CHECK(takes == OpSpec::SEVERAL || takes == static_cast<int>(layer.inputs.size()), RecipeError,
             cat(who, ": ", op, " takes ", takes, takes == 1 ? " input" : " inputs", ", this place gives ",
                 layer.inputs.size()));
    TR_CHECK(names_.insert(name).second, RecipeError,
             cat(who, ": two layers have this name; give one another"));
    const ValueId value = arch_.num_values();
    arch_.storage.push_back(spec.is_view(layer.attrs) ? arch_.storage[static_cast<size_t>(layer.inputs[0])]
                                                      : value);
    arch_.layers.push_back(std::move(layer));
    return value;
  }

  static std::string prefix(const std::string& where) { return where.empty() ? "" : cat(where, ": "); }

  const Catalog& catalog_;
  ArchPlan arch_;
  std::set<std::string> names_;
};

/// How often each value is read, the model's output counted as one.
std::vector<int> count_readers(const ArchPlan& arch) {
  std::vector<int> readers(static_cast<size_t>(arch.num_values()), 0);
  for (const Layer& layer : arch.layers)
    for (const ValueId input : layer.inputs) ++readers[static_cast<size_t>(input)];
  ++readers[static_cast<size_t>(arch.output)];
  return readers;
}

/// Removes layer `gone`, whose value becomes that of layer `heir`.
void remove_layer(ArchPlan& arch, size_t gone, size_t heir) {
  const auto gone_value = static_cast<ValueId>(gone) + 1, heir_value = static_cast<ValueId>(heir) + 1;
  const auto renumber = [&](ValueId& value) {
    if (value == gone_value) value = heir_value;
    if (value > gone_value) --value;
  };
  arch.layers.erase(arch.layers.begin() + static_cast<std::ptrdiff_t>(gone));
  arch.storage.erase(arch.storage.begin() + gone_value);
  for (Layer& layer : arch.layers) std::for_each(layer.inputs.begin(), layer.inputs.end(), renumber);
  std::for_each(arch.storage.begin(), arch.storage.end(), renumber);
  renumber(arch.output);
}

bool all_offered(const ArchPlan& arch, size_t index, const Catalog& catalog, const std::vector<Shape>& shapes,
                 DType dtype, const Target& target) {
  const OpQuery query = layer_query(arch, index, shapes, dtype, target);
  const CatalogEntry& entry = *arch.layers[index].entry;
  std::vector<Pass> passes = entry.spec->backward_passes(query);
  passes.insert(passes.end(), {Pass::FORWARD, Pass::INFERENCE});
  return std::all_of(passes.begin(), passes.end(),
                     [&](Pass pass) { return catalog.offer(entry, query, pass).supported(); });
}

}  // namespace

ArchPlan lower(const BluePrint& model, const Catalog& catalog) { return Lowering(catalog).run(model); }

std::vector<Shape> infer_shapes(const ArchPlan& arch, const Shape& input) {
  std::vector<Shape> shapes{input};
  shapes.reserve(static_cast<size_t>(arch.num_values()));
  for (const Layer& layer : arch.layers) {
    std::vector<Shape> x;
    for (const ValueId value : layer.inputs) x.push_back(shapes[static_cast<size_t>(value)]);
    const std::string who =
        cat(layer.where, layer.where.empty() ? "" : ": ", layer.entry->spec->name(), " '", layer.name, "'");
    shapes.push_back(layer.entry->spec->infer(layer.attrs, x, who));
  }
  return shapes;
}

std::vector<Shape> storage_shapes(const ArchPlan& arch, const std::vector<Shape>& shapes) {
  std::vector<Shape> stored;
  stored.reserve(shapes.size());
  for (size_t value = 0; value < arch.storage.size(); ++value) {
    const auto looked_at = static_cast<size_t>(arch.storage[value]);
    const bool keeps = looked_at == value && value > 0 &&
                       arch.layers[value - 1].entry->spec->flattened_input() == FlattenedInput::KEPT;
    if (keeps)
      stored.push_back(stored[static_cast<size_t>(arch.layers[value - 1].inputs.at(0))]);
    else
      stored.push_back(looked_at < value ? stored[looked_at] : shapes[value]);
  }
  return stored;
}

void check_flattened_inputs(const ArchPlan& arch, const std::vector<Shape>& logical,
                            const std::vector<Shape>& stored) {
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    const Layer& layer = arch.layers[i];
    if (arch.storage[i + 1] != static_cast<ValueId>(i) + 1) continue;  // a view
    const FlattenedInput reads = layer.entry->spec->flattened_input();
    for (const ValueId value : layer.inputs) {
      const Shape &seen = stored[static_cast<size_t>(value)], &meant = logical[static_cast<size_t>(value)];
      const bool fits = seen == meant || reads == FlattenedInput::ORDERED;
      TR_CHECK(reads == FlattenedInput::KEPT ? seen == stored[static_cast<size_t>(layer.inputs[0])] : fits,
               ShapeError,
               cat(layer.where, layer.where.empty() ? "" : ": ", layer.entry->spec->name(), " '", layer.name,
                   "': reads the flattened feature map ", seen, " as ", meant,
                   ", which it cannot; put it before flatten, or fc after flatten"));
    }
  }
  const auto output = static_cast<size_t>(arch.output);
  TR_CHECK(stored[output] == logical[output], ShapeError,
           cat("model: its output is the flattened feature map ", stored[output], ", not ", logical[output],
               "; let the last layer be fc(classes) after gap or flatten"));
}

OpQuery layer_query(const ArchPlan& arch, size_t index, const std::vector<Shape>& shapes, DType dtype,
                    const Target& target) {
  const Layer& layer = arch.layers[index];
  OpQuery query;
  query.layer = layer.name;
  query.attrs = layer.attrs;
  for (const ValueId value : layer.inputs) {
    const ValueId stored = arch.storage[static_cast<size_t>(value)];
    query.x.push_back(shapes[static_cast<size_t>(stored)]);
    query.needs_dx.push_back(stored != 0);
    query.reads_network_input = query.reads_network_input || stored == 0;
  }
  query.y = shapes[index + 1];
  query.dtype = dtype;
  query.target = target;
  return query;
}

ArchPlan without_idle_layers(ArchPlan arch, std::span<const Shape> inputs) {
  std::vector<std::vector<Shape>> shapes;
  for (const Shape& input : inputs) shapes.push_back(infer_shapes(arch, input));
  // From behind, so that the places in `shapes` stay those of the layers before.
  for (size_t i = arch.layers.size(); i-- > 0;) {
    const Layer& layer = arch.layers[i];
    const bool idle = std::ranges::all_of(shapes, [&](const std::vector<Shape>& of) {
      return layer.entry->spec->changes_nothing(layer.attrs, of[static_cast<size_t>(layer.inputs[0])]);
    });
    if (!idle || layer.inputs[0] == 0) continue;
    remove_layer(arch, i, static_cast<size_t>(layer.inputs[0]) - 1);
    // What looked at its value may now name a view.
    for (ValueId& value : arch.storage) value = arch.storage[static_cast<size_t>(value)];
  }
  return arch;
}

ArchPlan fuse(ArchPlan arch, const Catalog& catalog, const Shape& input, DType dtype, const Target& target) {
  if (!target.fuse) return arch;
  for (size_t i = 0; i < arch.layers.size();) {
    const std::vector<int> readers = count_readers(arch);
    const auto value = static_cast<ValueId>(i) + 1;
    bool absorbed = false;
    for (size_t j = i + 1; j < arch.layers.size() && !absorbed && readers[static_cast<size_t>(value)] == 1;
         ++j) {
      const Layer& consumer = arch.layers[j];
      const auto place = std::find(consumer.inputs.begin(), consumer.inputs.end(), value);
      if (place == consumer.inputs.end()) continue;
      const bool others_come_first = std::all_of(consumer.inputs.begin(), consumer.inputs.end(),
                                                 [&](ValueId other) { return other <= value; });
      if (!others_come_first || arch.output == value) break;
      const auto attrs = arch.layers[i].entry->spec->absorb(
          arch.layers[i].attrs, consumer.entry->spec->name(), consumer.attrs,
          static_cast<int>(place - consumer.inputs.begin()));
      if (!attrs.has_value()) break;

      ArchPlan fused = arch;
      fused.layers[i].attrs = *attrs;
      for (const ValueId other : consumer.inputs)
        if (other != value) fused.layers[i].inputs.push_back(other);
      remove_layer(fused, j, i);
      const auto stored = [&](const ArchPlan& plan) {
        return storage_shapes(plan, infer_shapes(plan, input));
      };
      if (!all_offered(fused, i, catalog, stored(fused), dtype, target) &&
          all_offered(arch, i, catalog, stored(arch), dtype, target))
        break;
      arch = std::move(fused);
      absorbed = true;
    }
    if (!absorbed) ++i;
  }
  return arch;
}

}  // namespace tr
