#include "train/state_dict.h"

#include <cstring>
#include <numeric>
#include <set>

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
};

std::vector<Entry> entries(const CompiledModel& model) {
  std::vector<Entry> list;
  for (const Parameter& parameter : model.parameters)
    list.push_back({parameter.name, parameter.spec.door_shape, parameter.tensors.master, &parameter.spec});
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

/// torch counts batches; the count changes nothing with a fixed momentum, but strict loading wants it.
constexpr std::string_view BATCH_COUNT = ".num_batches_tracked";

void check_strict(const std::vector<Entry>& expected, const CompiledModel& model, const StateDict& state) {
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> known;
  for (const Entry& entry : expected) {
    known.insert(entry.name);
    const StateTensor* tensor = state.find(entry.name);
    if (tensor == nullptr)
      missing.push_back(entry.name);
    else if (tensor->shape != entry.shape)
      different.push_back(
          cat(entry.name, ' ', shape_text(tensor->shape), " instead of ", shape_text(entry.shape)));
    else if (tensor->dtype != "F32")
      different.push_back(cat(entry.name, " is ", tensor->dtype, " instead of F32"));
    else if (static_cast<int64_t>(tensor->data.size()) !=
             elements(entry.shape) * static_cast<int64_t>(sizeof(float)))
      different.push_back(cat(entry.name, " has ", tensor->data.size(), " bytes"));
  }
  for (const Statistics& statistics : model.statistics)
    known.insert(statistics.layer + std::string(BATCH_COUNT));
  for (const auto& [name, tensor] : state.tensors)
    if (!known.contains(name)) unexpected.push_back(name);
  if (missing.empty() && unexpected.empty() && different.empty()) return;
  std::string text = "weights do not fit the model:";
  append_lines(text, "missing", missing);
  append_lines(text, "unexpected", unexpected);
  append_lines(text, "different", different);
  throw Error(ErrorKind::DataError, text);
}

}  // namespace

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

StateDict read_state_dict(Context& context) {
  const CompiledModel& model = context.model();
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  context.synchronize();
  StateDict state;
  state.metadata["format"] = "pt";
  for (const Entry& entry : entries(model)) {
    StateTensor tensor;
    tensor.shape = entry.shape;
    std::vector<float> inside(static_cast<size_t>(elements(entry.shape))), outside(inside.size());
    const auto bytes = static_cast<int64_t>(inside.size() * sizeof(float));
    context.read(0, plan.tensor(entry.id).offset, inside.data(), bytes);
    if (entry.spec == nullptr) {
      outside = inside;
    } else {
      const std::vector<int64_t> order = door_order(*entry.spec);
      for (size_t i = 0; i < inside.size(); ++i) outside[static_cast<size_t>(order[i])] = inside[i];
    }
    tensor.data.resize(static_cast<size_t>(bytes));
    std::memcpy(tensor.data.data(), outside.data(), tensor.data.size());
    state.tensors.emplace_back(entry.name, std::move(tensor));
  }
  int32_t steps = 0;
  context.read(0, plan.tensor(STEP).offset, &steps, sizeof steps);
  for (const Statistics& statistics : model.statistics) {
    const int64_t batches = steps;
    StateTensor tensor;
    tensor.dtype = "I64";
    tensor.data.resize(sizeof batches);
    std::memcpy(tensor.data.data(), &batches, sizeof batches);
    state.tensors.emplace_back(statistics.layer + std::string(BATCH_COUNT), std::move(tensor));
  }
  return state;
}

void write_state_dict(Context& context, const StateDict& state) {
  const CompiledModel& model = context.model();
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const std::vector<Entry> expected = entries(model);
  check_strict(expected, model, state);
  for (const Entry& entry : expected) {
    const StateTensor& tensor = *state.find(entry.name);
    std::vector<float> outside(static_cast<size_t>(elements(entry.shape))), inside(outside.size());
    std::memcpy(outside.data(), tensor.data.data(), tensor.data.size());
    if (entry.spec == nullptr) {
      inside = outside;
    } else {
      const std::vector<int64_t> order = door_order(*entry.spec);
      for (size_t i = 0; i < inside.size(); ++i) inside[i] = outside[static_cast<size_t>(order[i])];
    }
    for (int rank = 0; rank < context.arenas().ranks(); ++rank)
      context.write(rank, plan.tensor(entry.id).offset, inside.data(),
                    static_cast<int64_t>(inside.size() * sizeof(float)));
  }
  if (is_amp(model.request.config.precision))
    context.capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
}

}  // namespace tr
