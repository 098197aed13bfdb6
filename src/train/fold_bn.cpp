#include "renaissance/train/fold_bn.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace tr {

namespace {

/// What can take an affine map of its output channels in: not with an activation behind its sum.
bool takes_affine_map(const Layer& layer) {
  const std::string_view op = layer.entry->spec->name();
  return (op == "conv" || op == "fc") && layer.attrs.text("activation").empty();
}

std::vector<float> values_of(const StateTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
  return values;
}

StateTensor tensor_of(const std::vector<float>& values, std::vector<int64_t> shape) {
  StateTensor tensor;
  tensor.shape = std::move(shape);
  tensor.data.resize(values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

std::vector<float> read_values(const StateDict& state, const std::string& name) {
  const StateTensor* tensor = state.find(name);
  TR_CHECK(tensor != nullptr, DataError,
           cat("folding batch norm: '", name, "' is missing; give the whole state_dict of the model"));
  TR_CHECK(tensor->dtype == "F32", DataError,
           cat("folding batch norm: '", name, "' is ", tensor->dtype, ", expected F32"));
  return values_of(*tensor);
}

/// The affine map of a batch norm, one pair per channel.
struct AffineMap {
  std::vector<double> scale, offset;
};

AffineMap affine_map(const StateDict& state, const FoldableBatchNorm& pair) {
  const std::vector<float> weight = read_values(state, pair.bn + ".weight"),
                           bias = read_values(state, pair.bn + ".bias"),
                           mean = read_values(state, pair.bn + ".running_mean"),
                           variance = read_values(state, pair.bn + ".running_var");
  const size_t channels = weight.size();
  TR_CHECK(bias.size() == channels && mean.size() == channels && variance.size() == channels, DataError,
           cat("folding batch norm: '", pair.bn, "' has ", channels, " weights, ", bias.size(), " biases, ",
               mean.size(), " means and ", variance.size(), " variances; expected as many of each"));
  AffineMap map;
  for (size_t c = 0; c < channels; ++c) {
    map.scale.push_back(double{weight[c]} / std::sqrt(double{variance[c]} + pair.epsilon));
    map.offset.push_back(double{bias[c]} - double{mean[c]} * map.scale[c]);
  }
  return map;
}

struct FoldedLayer {
  StateTensor weight, bias;
};

FoldedLayer fold(const StateDict& state, const FoldableBatchNorm& pair) {
  const AffineMap map = affine_map(state, pair);
  const size_t channels = map.scale.size();
  std::vector<float> weight = read_values(state, pair.layer + ".weight");
  std::vector<float> bias(channels, 0.0f);
  if (state.find(pair.layer + ".bias") != nullptr) bias = read_values(state, pair.layer + ".bias");
  TR_CHECK(weight.size() % channels == 0 && !weight.empty() && bias.size() == channels, DataError,
           cat("folding batch norm: '", pair.layer, "' has ", weight.size(), " weights and ", bias.size(),
               " biases, '", pair.bn, "' has ", channels, " channels"));
  const size_t per_channel = weight.size() / channels;
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>(double{weight[i]} * map.scale[i / per_channel]);
  for (size_t c = 0; c < channels; ++c)
    bias[c] = static_cast<float>(map.offset[c] + double{bias[c]} * map.scale[c]);
  return {tensor_of(weight, state.find(pair.layer + ".weight")->shape),
          tensor_of(bias, {static_cast<int64_t>(channels)})};
}

/// "layer1.0.bn1.running_mean" → "layer1.0.bn1".
std::string layer_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

std::vector<FoldableBatchNorm> foldable_batch_norms(const CompiledModel& model) {
  const ArchPlan& arch = model.arch;
  const auto stored = [&](ValueId value) { return arch.storage[static_cast<size_t>(value)]; };
  std::vector<int> readers(static_cast<size_t>(arch.num_values()), 0);
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    const auto output = static_cast<ValueId>(i) + 1;
    if (stored(output) != output) continue;  // a view's readers count in its place
    for (const ValueId input : arch.layers[i].inputs) ++readers[static_cast<size_t>(stored(input))];
  }
  ++readers[static_cast<size_t>(stored(arch.output))];
  std::vector<FoldableBatchNorm> pairs;
  for (const Layer& bn : arch.layers) {
    if (bn.entry->spec->name() != "bn") continue;
    const ValueId value = bn.inputs[0];
    if (value == 0 || readers[static_cast<size_t>(value)] != 1) continue;
    const Layer& layer = arch.layers[static_cast<size_t>(value) - 1];
    if (takes_affine_map(layer)) pairs.push_back({layer.name, bn.name, bn.attrs.number("epsilon")});
  }
  return pairs;
}

StateDict fold_batch_norms(const CompiledModel& model, const StateDict& state) {
  std::map<std::string, FoldedLayer> folded;  // by layer
  std::set<std::string> gone;                 // batch norms
  for (const FoldableBatchNorm& pair : foldable_batch_norms(model)) {
    folded.emplace(pair.layer, fold(state, pair));
    gone.insert(pair.bn);
  }
  StateDict result;
  result.metadata = state.metadata;
  for (const auto& [name, tensor] : state.tensors) {
    const std::string layer = layer_of(name);
    if (gone.contains(layer)) continue;
    const auto found = folded.find(layer);
    if (found == folded.end()) {
      result.tensors.emplace_back(name, tensor);
    } else if (name == layer + ".weight") {
      result.tensors.emplace_back(name, found->second.weight);
      result.tensors.emplace_back(layer + ".bias", found->second.bias);
    }
  }
  return result;
}

}  // namespace tr
