#include "train/state_dict.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "core/sixteen_bits.h"
#include "graph/freeze.h"

namespace tr {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i == 0 ? "" : ",", shape[i]);
  return text + "]";
}

/// Every tensor that a state_dict of the model has, in order: what it is called, shaped, and where it lies.
struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  TensorId id = NO_TENSOR;
  const ParamSpec* spec = nullptr;  ///< null for statistics
  TensorId ema = NO_TENSOR;         ///< the average, where there is one
};

std::vector<Entry> entries(const CompiledModel& model) {
  std::vector<Entry> list;
  for (const Parameter& parameter : model.parameters)
    list.push_back({parameter.name, parameter.spec.door_shape, parameter.tensors.master, &parameter.spec,
                    parameter.tensors.ema});
  for (const Statistics& statistics : model.statistics) {
    list.push_back(
        {statistics.layer + ".running_mean", {statistics.channels}, statistics.tensors.prev_mean, nullptr});
    list.push_back(
        {statistics.layer + ".running_var", {statistics.channels}, statistics.tensors.prev_var, nullptr});
  }
  return list;
}

int64_t elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void append_lines(std::string& text, std::string_view title, const std::vector<std::string>& names) {
  constexpr size_t MOST = 8;
  if (names.empty()) return;
  text += cat("\n  ", title, " (", names.size(), "):");
  for (size_t i = 0; i < std::min(names.size(), MOST); ++i) text += cat(' ', names[i]);
  if (names.size() > MOST) text += " …";
}

int64_t element_bytes(std::string_view dtype) {
  if (dtype == "F32") return sizeof(float);
  return dtype == "F16" || dtype == "BF16" ? sizeof(uint16_t) : 0;
}

/// What is wrong with a tensor that stands for `entry`; "" when nothing is.
std::string difference(const Entry& entry, const StateTensor& tensor) {
  if (tensor.shape != entry.shape)
    return cat(entry.name, ' ', shape_text(tensor.shape), " instead of ", shape_text(entry.shape));
  const int64_t bytes = element_bytes(tensor.dtype);
  if (bytes == 0) return cat(entry.name, " is ", tensor.dtype, " instead of F32, F16 or BF16");
  if (std::ssize(tensor.data) != elements(entry.shape) * bytes)
    return cat(entry.name, " has ", tensor.data.size(), " bytes");
  return "";
}

std::vector<float> values_of(const StateTensor& tensor) {
  const size_t count = tensor.data.size() / static_cast<size_t>(element_bytes(tensor.dtype));
  std::vector<float> values(count);
  if (tensor.dtype == "F32") {
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  std::vector<uint16_t> narrow(count);
  std::memcpy(narrow.data(), tensor.data.data(), tensor.data.size());
  with_16bit(tensor.dtype == "F16" ? DType::FP16 : DType::BF16,
             [&](auto type) { widen(type, narrow.data(), values.data(), std::ssize(values)); });
  return values;
}

StateTensor fp32_tensor(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  StateTensor tensor;
  tensor.shape = shape;
  tensor.data.resize(values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

StateTensor batch_count(int64_t batches) {
  StateTensor tensor;
  tensor.dtype = "I64";
  tensor.data.resize(sizeof batches);
  std::memcpy(tensor.data.data(), &batches, sizeof batches);
  return tensor;
}

std::string layer_of(const std::string& name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

bool matches_any(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return matches_glob(glob, name); });
}

void check_globs(const std::vector<Entry>& expected, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    const bool matches = std::any_of(expected.begin(), expected.end(),
                                     [&](const Entry& entry) { return matches_glob(glob, entry.name); });
    if (matches) continue;
    std::set<std::string> likely;
    for (const Entry& entry : expected) likely.insert({entry.name, layer_of(entry.name) + ".*"});
    const std::string near = nearest_name(glob, std::vector<std::string>(likely.begin(), likely.end()));
    throw Error(ErrorKind::RecipeError,
                cat("init_except: '", glob, "' matches no parameter of the model; ",
                    near.empty() ? cat("their names are such as '", expected[0].name, "'")
                                 : cat("did you mean '", near, "'?")));
  }
}

}  // namespace

void check_state_dict(const CompiledModel& model, const StateDict& state,
                      const std::vector<std::string>& except) {
  const std::vector<Entry> expected = entries(model);
  check_globs(expected, except);
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> known, layers;
  for (const Entry& entry : expected) {
    known.insert(entry.name);
    if (matches_any(except, entry.name)) continue;
    const StateTensor* tensor = state.find(entry.name);
    const std::string text = tensor == nullptr ? "" : difference(entry, *tensor);
    if (tensor == nullptr) missing.push_back(entry.name);
    if (!text.empty()) different.push_back(text);
    if (tensor == nullptr || !text.empty()) layers.insert(layer_of(entry.name));
  }
  for (const Statistics& statistics : model.statistics)
    known.insert(statistics.layer + std::string(BATCH_COUNT));
  for (const auto& [name, tensor] : state.tensors)
    if (!known.contains(name) && !matches_any(except, name)) unexpected.push_back(name);
  if (missing.empty() && unexpected.empty() && different.empty()) return;
  std::string text = "weights do not fit the model:";
  append_lines(text, "missing", missing);
  append_lines(text, "unexpected", unexpected);
  append_lines(text, "different", different);
  if (layers.size() == 1 && unexpected.empty())
    text += cat("\n  to fine-tune, let this layer start afresh: init_except: [\"", *layers.begin(), ".*\"]");
  throw Error(ErrorKind::DataError, text);
}

std::vector<int64_t> door_order(const ParamSpec& spec) {
  std::vector<int64_t> order(static_cast<size_t>(spec.shape.numel()));
  if (spec.door_shape.size() == 4) {
    const int64_t K = spec.shape.n(), R = spec.shape.h(), S = spec.shape.w(), C = spec.shape.c();
    size_t i = 0;
    for (int64_t k = 0; k < K; ++k)
      for (int64_t r = 0; r < R; ++r)
        for (int64_t s = 0; s < S; ++s)
          for (int64_t c = 0; c < C; ++c) order[i++] = ((k * C + c) * R + r) * S + s;
    return order;
  }
  if (spec.door_shape.size() == 2) {
    const auto [H, W, C] = spec.flattened_hwc;
    size_t i = 0;
    for (int64_t row = 0; row < spec.shape.n(); ++row)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t w = 0; w < W; ++w)
          for (int64_t c = 0; c < C; ++c) order[i++] = row * H * W * C + (c * H + h) * W + w;
    return order;
  }
  std::iota(order.begin(), order.end(), 0);
  return order;
}

namespace {

StateDict read_set(Context& context, bool averaged) {
  const CompiledModel& model = context.model();
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  context.synchronize();
  StateDict state;
  state.metadata["format"] = "pt";
  for (const Entry& entry : entries(model)) {
    std::vector<float> inside(static_cast<size_t>(elements(entry.shape))), outside(inside.size());
    const auto bytes = static_cast<int64_t>(inside.size() * sizeof(float));
    const TensorId id = averaged && entry.ema != NO_TENSOR ? entry.ema : entry.id;
    context.read(0, plan.tensor(id).offset, inside.data(), bytes);
    if (entry.spec == nullptr) {
      outside = inside;
    } else {
      const std::vector<int64_t> order = door_order(*entry.spec);
      for (size_t i = 0; i < inside.size(); ++i) outside[static_cast<size_t>(order[i])] = inside[i];
    }
    state.tensors.emplace_back(entry.name, fp32_tensor(entry.shape, outside));
  }
  append_batch_counts(state, context, "");
  return state;
}

}  // namespace

void append_batch_counts(StateDict& state, Context& context, std::string_view prefix) {
  const CompiledModel& model = context.model();
  int32_t steps = 0;
  context.read(0, model.plan(Variant::TRAIN_BASE).tensor(STEP).offset, &steps, sizeof steps);
  for (const Statistics& statistics : model.statistics)
    state.tensors.emplace_back(cat(prefix, statistics.layer, BATCH_COUNT), batch_count(steps));
}

StateDict read_state_dict(Context& context) { return read_set(context, false); }

StateDict read_averaged_state_dict(Context& context) {
  TR_CHECK(context.model().request.config.has_ema, StateError,
           "this training averages no weights; set ema.decay in its recipe");
  return read_set(context, true);
}

StateDict canonical_state_dict(const CompiledModel& model, const StateDict& state) {
  check_state_dict(model, state);
  StateDict canonical;
  canonical.metadata["format"] = "pt";
  for (const Entry& entry : entries(model))
    canonical.tensors.emplace_back(entry.name, fp32_tensor(entry.shape, values_of(*state.find(entry.name))));
  for (const Statistics& statistics : model.statistics) {
    const std::string name = statistics.layer + std::string(BATCH_COUNT);
    const StateTensor* known = state.find(name);
    canonical.tensors.emplace_back(name, known != nullptr && known->dtype == "I64" ? *known : batch_count(0));
  }
  return canonical;
}

void write_state_dict(Context& context, const StateDict& state, const std::vector<std::string>& except) {
  const CompiledModel& model = context.model();
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  check_state_dict(model, state, except);
  for (const Entry& entry : entries(model)) {
    if (matches_any(except, entry.name)) continue;
    const std::vector<float> outside = values_of(*state.find(entry.name));
    TR_CHECK(std::all_of(outside.begin(), outside.end(), [](float value) { return std::isfinite(value); }),
             DataError,
             cat("weights: ", entry.name,
                 " holds a value that is not finite; use weights of a training that went well"));
    std::vector<float> inside(outside.size());
    if (entry.spec == nullptr) {
      inside = outside;
    } else {
      const std::vector<int64_t> order = door_order(*entry.spec);
      for (size_t i = 0; i < inside.size(); ++i) inside[i] = outside[static_cast<size_t>(order[i])];
    }
    // Averages start anew from the weights.
    for (const TensorId id : {entry.id, entry.ema})
      for (int rank = 0; rank < context.arenas().ranks() && id != NO_TENSOR; ++rank)
        context.write(rank, plan.tensor(id).offset, inside.data(),
                      static_cast<int64_t>(inside.size() * sizeof(float)));
  }
  refresh_copies(context);
}

void refresh_copies(Context& context) {
  if (is_amp(context.model().request.config.precision))
    context.capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
}

}  // namespace tr
