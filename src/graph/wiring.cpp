#include "graph/wiring.h"

#include <algorithm>

#include "renaissance/core/error.h"

namespace tr {

namespace {

using Kind = TensorRef::Kind;

class Wirer {
 public:
  Wirer(const ArchPlan& arch, const Catalog& catalog, const std::vector<Shape>& shapes, DType dtype,
        const Target& target, bool mix_samples, bool bn_folded, const Freezing& freezing)
      : arch_(arch),
        catalog_(catalog),
        shapes_(shapes),
        dtype_(dtype),
        target_(target),
        mix_samples_(mix_samples),
        bn_folded_(bn_folded),
        freezer_(freezing),
        trains_(static_cast<size_t>(arch.num_values()), false),
        contributions_(static_cast<size_t>(arch.num_values())) {}

  Wiring run() {
    for (size_t i = 0; i < arch_.layers.size(); ++i) add_layer_instance(i);
    freezer_.finish();
    if (target_.fuse) pair_statistics();
    for (size_t i = 0; i < arch_.layers.size(); ++i) {
      if (is_view(i)) continue;
      add_node(GraphId::FORWARD, static_cast<int>(i), Pass::FORWARD, {}, {});
      add_node(GraphId::INFERENCE, static_cast<int>(i), Pass::INFERENCE, {}, {});
    }
    add_loss();
    for (size_t i = arch_.layers.size(); i-- > 0;)
      if (!is_view(i)) add_backward(i);
    return std::move(wiring_);
  }

 private:
  static constexpr int NO_GRAD = -1;

  bool is_view(size_t layer) const { return arch_.storage[layer + 1] != static_cast<ValueId>(layer) + 1; }
  ValueId stored(ValueId value) const { return arch_.storage[static_cast<size_t>(value)]; }

  void add_layer_instance(size_t index) {
    const Layer& layer = arch_.layers[index];
    OpInstance op{layer.name, layer.entry, layer.attrs, {}, static_cast<ValueId>(index) + 1, false, {}, 1, 0};
    for (const ValueId input : layer.inputs) {
      op.inputs.push_back(stored(input));
      op.needs_dx.push_back(trains_[static_cast<size_t>(stored(input))]);
      op.reads_network_input = op.reads_network_input || stored(input) == 0;
    }
    op.bn_folded = bn_folded_;
    wiring_.ops.push_back(std::move(op));
    if (!is_view(index)) freeze(index);
  }

  /// What a layer has that trains, and whether its output depends on anything that does.
  void freeze(size_t index) {
    OpInstance& op = wiring_.ops[index];
    const OpQuery layer = query(static_cast<int>(index));
    std::vector<bool> frozen;
    for (const ParamSpec& param : op.entry->spec->params(layer))
      frozen.push_back(freezer_.freezes(parameter_name(op, param)));
    const auto is_set = [](bool value) { return value; };
    trains_[index + 1] = !std::all_of(frozen.begin(), frozen.end(), is_set) ||
                         std::any_of(op.needs_dx.begin(), op.needs_dx.end(), is_set);
    if (op.entry->spec->state_channels(layer) > 0 && freezer_.freezes_statistics(frozen))
      op.attrs.set("frozen", true);
    if (std::any_of(frozen.begin(), frozen.end(), is_set)) op.frozen = std::move(frozen);
  }

  /// Where an operator can leave sums over its output, or part of it, for its only reader, it does.
  void pair_statistics() {
    const size_t layers = arch_.layers.size();
    std::vector<int> readers(static_cast<size_t>(arch_.num_values()), 0);
    for (size_t i = 0; i < layers; ++i)
      for (const ValueId input : wiring_.ops[i].inputs) ++readers[static_cast<size_t>(input)];
    ++readers[static_cast<size_t>(stored(arch_.output))];
    for (size_t i = 0; i < layers; ++i) {
      OpInstance& reader = wiring_.ops[i];
      const ValueId value = reader.inputs.empty() ? 0 : reader.inputs[0];
      if (value == 0 || is_view(i) || readers[static_cast<size_t>(value)] != 1) continue;
      OpInstance& writer = wiring_.ops[static_cast<size_t>(value) - 1];
      if (reader.entry->spec->takes_statistics(query(static_cast<int>(i))))
        reader.statistics = writer.statistics = writer.entry->spec->statistics_rows(query(value - 1));
    }
  }

  int new_grad(ValueId value) {
    wiring_.grad_values.push_back(value);
    aliases_.push_back(1);
    return static_cast<int>(wiring_.grad_values.size()) - 1;
  }

  TensorRef resolve(int op, const Use& use, const std::vector<int>& dy, const std::vector<int>& dx) const {
    const OpInstance& instance = wiring_.ops[static_cast<size_t>(op)];
    const auto place = static_cast<size_t>(use.index);
    switch (use.port) {
      case Port::X: {
        const ValueId value = instance.inputs.at(place);
        return value == 0 ? TensorRef{Kind::BASELINE, INPUT_A_DATA, 0} : TensorRef{Kind::VALUE, value, 0};
      }
      case Port::Y:
        return {Kind::VALUE, instance.output, 0};
      case Port::DX:
        return {Kind::GRAD, dx.at(place), 0};
      case Port::DY:
        return {Kind::GRAD, dy.at(place), 0};
      case Port::PARAM:
        return {Kind::PARAM, op, use.index};
      case Port::PARAM_GRAD:
        return {Kind::PARAM_GRAD, op, use.index};
      case Port::STATE_PREV:
        return {Kind::STATE_PREV, op, use.index};
      case Port::STATE_NEXT:
        return {Kind::STATE_NEXT, op, use.index};
      case Port::EQUIVALENT:
        return {Kind::EQUIVALENT, op, use.index};
      case Port::SAVED:
        return {Kind::SAVED, op, use.index};
      case Port::STATISTICS:
        return {Kind::STATISTICS, use.write ? op : instance.inputs.at(0) - 1, 0};
      case Port::BASELINE:
        return {Kind::BASELINE, use.index, 0};
      case Port::WORKSPACE:
        break;
    }
    throw Error(ErrorKind::ValueError, cat("'", instance.name, "': a pass may not name its workspace"));
  }

  OpQuery query(int op) const {
    return instance_query(wiring_.ops[static_cast<size_t>(op)], shapes_, dtype_, target_);
  }

  void add_node(GraphId part, int op, Pass pass, const std::vector<int>& dy, const std::vector<int>& dx) {
    WiredNode node{part, op, pass, {}};
    for (const Use& use : wiring_.ops[static_cast<size_t>(op)].entry->spec->uses(query(op), pass))
      node.operands.push_back({use, resolve(op, use, dy, dx)});
    wiring_.nodes.push_back(std::move(node));
  }

  void add_loss() {
    const ValueId logits = stored(arch_.output);
    const Attributes attrs{{"mix", mix_samples_}};
    wiring_.ops.push_back(
        {"loss", &catalog_.find("softmax_cross_entropy"), attrs, {logits}, logits, false, {true}, 1, 0});
    const int op = static_cast<int>(wiring_.ops.size()) - 1;
    const int grad = new_grad(logits);
    add_node(GraphId::FORWARD, op, Pass::FORWARD, {}, {grad});
    add_node(GraphId::INFERENCE, op, Pass::INFERENCE, {}, {});
    contributions_[static_cast<size_t>(logits)].push_back(grad);
  }

  /// A node of the compiler's own over gradients of `value`: their sum, or a copy of one.
  int add_grad_node(std::string_view op_name, const std::string& name, ValueId value,
                    const std::vector<int>& grads) {
    const CatalogEntry& entry = catalog_.find(op_name);
    OpInstance op{name,
                  &entry,
                  {},
                  std::vector<ValueId>(grads.size(), value),
                  value,
                  false,
                  std::vector<bool>(grads.size(), false),
                  1,
                  0};
    wiring_.ops.push_back(std::move(op));
    const int result = new_grad(value);
    WiredNode node{GraphId::BACKWARD, static_cast<int>(wiring_.ops.size()) - 1, Pass::FORWARD, {}};
    for (size_t i = 0; i < grads.size(); ++i)
      node.operands.push_back({reads(Port::X, static_cast<int>(i)), {Kind::GRAD, grads[i], 0}});
    node.operands.push_back({writes(Port::Y), {Kind::GRAD, result, 0}});
    wiring_.nodes.push_back(std::move(node));
    return result;
  }

  /// The gradients whose sum is that of a layer's output: at most `most` of them, the others added up.
  std::vector<int> gather(const Layer& layer, ValueId value, size_t most) {
    const std::vector<int>& parts = contributions_[static_cast<size_t>(value)];
    if (parts.empty()) refuse_unread(layer);
    std::vector<int> rest(parts.begin(), parts.end());
    while (rest.size() > most) {
      const int sum = add_grad_node("add", cat(layer.name, ".grad_sum"), value, {rest[0], rest[1]});
      rest.erase(rest.begin());
      rest[0] = sum;
    }
    return rest;
  }

  void add_backward(size_t index) {
    const Layer& layer = arch_.layers[index];
    const OpSpec& spec = *layer.entry->spec;
    const int op = static_cast<int>(index);
    const std::vector<ValueId> inputs = wiring_.ops[index].inputs;
    const std::vector<bool> needs_dx = wiring_.ops[index].needs_dx;
    if (!trains_[index + 1]) return require_reader(index);
    const bool passes_through = spec.passes_gradient_through(layer.attrs);
    std::vector<int> dy = gather(layer, static_cast<ValueId>(index) + 1,
                                 passes_through ? 1 : static_cast<size_t>(spec.most_gradients(query(op))));
    if (passes_through) {
      aliases_[static_cast<size_t>(dy[0])] +=
          static_cast<int>(std::count(needs_dx.begin(), needs_dx.end(), true)) - 1;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (needs_dx[i]) contributions_[static_cast<size_t>(inputs[i])].push_back(dy[0]);
      return;
    }
    wiring_.ops[index].gradients = static_cast<int>(dy.size());
    const std::vector<Pass> passes = backward_passes(op);
    if (writes_dy(op, passes))
      for (int& gradient : dy)
        if (aliases_[static_cast<size_t>(gradient)] > 1)
          gradient = add_grad_node("identity", cat(layer.name, ".grad_copy"), static_cast<ValueId>(index) + 1,
                                   {gradient});
    std::vector<int> dx(inputs.size(), NO_GRAD);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!needs_dx[i]) continue;
      dx[i] = new_grad(inputs[i]);
      contributions_[static_cast<size_t>(inputs[i])].push_back(dx[i]);
    }
    for (const Pass pass : passes) add_node(GraphId::BACKWARD, op, pass, dy, dx);
  }

  /// Without the gradients of weights that are all frozen, unless the pass prepares dy for the next.
  std::vector<Pass> backward_passes(int op) const {
    const OpInstance& instance = wiring_.ops[static_cast<size_t>(op)];
    std::vector<Pass> passes = instance.entry->spec->backward_passes(query(op));
    const std::vector<bool>& frozen = instance.frozen;
    const bool all_frozen = !frozen.empty() && std::find(frozen.begin(), frozen.end(), false) == frozen.end();
    if (all_frozen)
      std::erase_if(passes,
                    [&](Pass pass) { return pass == Pass::BACKWARD_WEIGHT && !writes_dy(op, {pass}); });
    return passes;
  }

  void require_reader(size_t index) const {
    const auto value = static_cast<ValueId>(index) + 1;
    const auto reads_it = [&](const OpInstance& op) {
      return std::find(op.inputs.begin(), op.inputs.end(), value) != op.inputs.end();
    };
    if (!std::any_of(wiring_.ops.begin(), wiring_.ops.end(), reads_it)) refuse_unread(arch_.layers[index]);
  }

  [[noreturn]] static void refuse_unread(const Layer& layer) {
    throw Error(ErrorKind::RecipeError, cat(layer.where, layer.where.empty() ? "" : ": ", "'", layer.name,
                                            "': nothing reads this layer's output"));
  }

  bool writes_dy(int op, const std::vector<Pass>& passes) const {
    for (const Pass pass : passes)
      for (const Use& use : wiring_.ops[static_cast<size_t>(op)].entry->spec->uses(query(op), pass))
        if (use.port == Port::DY && use.write) return true;
    return false;
  }

  const ArchPlan& arch_;
  const Catalog& catalog_;
  const std::vector<Shape>& shapes_;
  const DType dtype_;
  const Target& target_;
  const bool mix_samples_, bn_folded_;
  Freezer freezer_;
  std::vector<bool> trains_;  ///< by stored value: it depends on a parameter that trains
  Wiring wiring_;
  std::vector<std::vector<int>> contributions_;  ///< per value, gradients that its readers produced
  std::vector<int> aliases_;                     ///< per gradient, how many values it is the gradient of
};

}  // namespace

OpQuery instance_query(const OpInstance& op, const std::vector<Shape>& shapes, DType dtype,
                       const Target& target) {
  OpQuery query;
  query.layer = op.name;
  query.attrs = op.attrs;
  for (const ValueId value : op.inputs) query.x.push_back(shapes[static_cast<size_t>(value)]);
  query.y = shapes[static_cast<size_t>(op.output)];
  query.dtype = dtype;
  query.target = target;
  query.reads_network_input = op.reads_network_input;
  query.needs_dx = op.needs_dx;
  query.gradients = op.gradients;
  query.statistics = op.statistics;
  query.bn_folded = op.bn_folded;
  return query;
}

Wiring wire(const ArchPlan& arch, const Catalog& catalog, const std::vector<Shape>& shapes, DType dtype,
            const Target& target, bool mix_samples, bool bn_folded, const Freezing& freezing) {
  return Wirer(arch, catalog, shapes, dtype, target, mix_samples, bn_folded, freezing).run();
}

}  // namespace tr
