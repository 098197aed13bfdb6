#include "train/training_state.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "train/state_dict.h"

namespace tr {

namespace {

/// One tensor of the state and what it is called in a file.
struct SavedTensor {
  std::string name;
  TensorId id = NO_TENSOR;
  std::vector<int64_t> shape;
  const ParamSpec* spec = nullptr;  ///< laid out as at the door; null: as in the arena
  bool same_on_ranks = false;
};

/// Saved, as what a step leaves for the next.
bool is_state(Region region) {
  switch (region) {
    case Region::W_EQ_BIAS:
    case Region::W_EQ_SCALE:
    case Region::E_FC_WEIGHT_FP16:
    case Region::E_FIRST_CONV_FP16:
    case Region::E_DEEP_CONV_FP16:
    case Region::A_FC_WEIGHT:
    case Region::A_FIRST_CONV:
    case Region::A_DEEP_CONV:
    case Region::G_BN_BIAS:
    case Region::G_BN_WEIGHT:
    case Region::G_FC_BIAS:
    case Region::G_FC_WEIGHT:
    case Region::G_FIRST_CONV:
    case Region::G_DEEP_CONV:
    case Region::R_RESULT:
    case Region::G_FC_WEIGHT_FP16:
    case Region::G_FIRST_CONV_FP16:
    case Region::G_DEEP_CONV_FP16:
    case Region::I_A_LABEL:
    case Region::I_A_DATA:
    case Region::I_B_LABEL:
    case Region::I_B_DATA:
    case Region::R_PREDICTED_LABEL:
    case Region::R_RESULT_ACCUMULATED:
      return false;
    default:
      return !region_traits(region).transient;
  }
}

bool is_state(const DTensor& tensor) {
  switch (tensor.id) {
    case BATCH_SIZE:
    case BATCH_SIZE_LAST_TRAIN:
    case BATCH_SIZE_LAST_VAL:  // of the plan
    case SYNC_COUNTERS:        // zero between nodes
      return false;
    default:
      return is_state(tensor.region);
  }
}

const char* dtype_text(DType dtype) {
  switch (dtype) {
    case DType::FP32:
      return "F32";
    case DType::FP16:
      return "F16";
    case DType::BF16:
      return "BF16";
    case DType::INT32:
      return "I32";
    case DType::INT8:
      return "I8";
    case DType::UINT8:
      return "U8";
  }
  return "?";
}

/// By tensor id; empty names where nothing is saved. Every rank updates parameters and their moments alike.
std::vector<SavedTensor> saved_tensors(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  std::vector<SavedTensor> by_id(static_cast<size_t>(plan.num_tensors()));
  for (const DTensor& tensor : plan.tensors()) {
    if (!is_state(tensor)) continue;
    const auto id = static_cast<size_t>(tensor.id);
    const Shape& shape = tensor.shape;
    by_id[id] = {"state." + model.tensor_names[id], tensor.id, {shape.n(), shape.h(), shape.w(), shape.c()}};
  }
  const auto rename = [&](TensorId id, std::string name, std::vector<int64_t> shape, const ParamSpec* spec) {
    if (id == NO_TENSOR) return;
    by_id.at(static_cast<size_t>(id)) = {std::move(name), id, std::move(shape), spec, spec != nullptr};
  };
  for (const Parameter& parameter : model.parameters) {
    const auto give = [&](TensorId id, const char* prefix) {
      rename(id, prefix + parameter.name, parameter.spec.door_shape, &parameter.spec);
    };
    give(parameter.tensors.master, "model.");
    give(parameter.tensors.ema, "ema.");
    give(parameter.tensors.first_moment, "first_moment.");
    give(parameter.tensors.second_moment, "second_moment.");
  }
  for (const Statistics& statistics : model.statistics) {
    const std::string layer = "model." + statistics.layer;
    rename(statistics.tensors.prev_mean, layer + ".running_mean", {statistics.channels}, nullptr);
    rename(statistics.tensors.prev_var, layer + ".running_var", {statistics.channels}, nullptr);
  }
  std::erase_if(by_id, [](const SavedTensor& tensor) { return tensor.id == NO_TENSOR; });
  return by_id;
}

/// Elements of the tensor, dense; the padding between channels, if any, is not state.
int64_t bytes_of(const CompiledModel& model, const SavedTensor& saved) {
  const DTensor& tensor = model.plan(Variant::TRAIN_BASE).tensor(saved.id);
  return tensor.shape.numel() * dtype_bytes(tensor.dtype);
}

std::vector<std::byte> reordered(const std::vector<std::byte>& bytes, const SavedTensor& saved,
                                 bool to_door) {
  if (saved.spec == nullptr) return bytes;
  const std::vector<int64_t> order = door_order(*saved.spec);
  std::vector<std::byte> result(bytes.size());
  constexpr size_t SIZE = sizeof(float);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto door = static_cast<size_t>(order[i]);
    const size_t from = to_door ? i : door, to = to_door ? door : i;
    std::memcpy(result.data() + to * SIZE, bytes.data() + from * SIZE, SIZE);
  }
  return result;
}

std::string rank_name(int rank, const std::string& name) { return cat("rank", rank, '.', name); }

/// What does not fit the model, a line for each kind.
class Differences {
 public:
  void add(std::string& list, const std::string& name) {
    constexpr size_t MOST_BYTES = 400;
    any_ = true;
    if (list.size() < MOST_BYTES)
      list += ' ' + name;
    else if (!list.ends_with("…"))
      list += " …";
  }
  void raise(const std::string& source) const {
    if (!any_) return;
    std::string text = cat(source, ": the checkpoint does not fit the model:");
    if (!missing.empty()) text += "\n  missing:" + missing;
    if (!unexpected.empty()) text += "\n  unexpected:" + unexpected;
    if (!different.empty()) text += "\n  different:" + different;
    throw Error(ErrorKind::DataError, text);
  }
  std::string missing, unexpected, different;

 private:
  bool any_ = false;
};

void check_fits(const CompiledModel& model, const std::vector<SavedTensor>& saved, const StateDict& state,
                const std::string& source) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  Differences differences;
  std::set<std::string> known{EPOCH_SUMS};
  for (const SavedTensor& expected : saved) {
    for (int rank = 0; rank < model.request.target.ranks; ++rank) {
      const std::string name = rank == 0 ? expected.name : rank_name(rank, expected.name);
      const StateTensor* tensor = state.find(name);
      known.insert(name);
      if (tensor == nullptr && rank == 0) differences.add(differences.missing, name);
      if (tensor == nullptr) continue;
      const bool same = tensor->shape == expected.shape &&
                        tensor->dtype == dtype_text(plan.tensor(expected.id).dtype) &&
                        std::ssize(tensor->data) == bytes_of(model, expected);
      if (!same) differences.add(differences.different, name);
      if (expected.same_on_ranks) break;
    }
  }
  for (const Statistics& statistics : model.statistics)
    known.insert(cat("model.", statistics.layer, BATCH_COUNT));
  for (const auto& [name, tensor] : state.tensors)
    if (!known.contains(name)) differences.add(differences.unexpected, name);
  differences.raise(source);
}

}  // namespace

StateDict read_training_state(Context& context) {
  const CompiledModel& model = context.model();
  context.synchronize();
  StateDict state;
  for (const SavedTensor& saved : saved_tensors(model)) {
    const DTensor& place = model.plan(Variant::TRAIN_BASE).tensor(saved.id);
    std::vector<std::byte> first(static_cast<size_t>(bytes_of(model, saved))), other;
    const int ranks = saved.same_on_ranks ? 1 : context.arenas().ranks();
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte>& bytes = rank == 0 ? first : other;
      bytes.resize(first.size());
      context.read(rank, place.offset, bytes.data(), std::ssize(bytes));
      if (rank > 0 && other == first) continue;
      state.tensors.emplace_back(
          rank == 0 ? saved.name : rank_name(rank, saved.name),
          StateTensor{dtype_text(place.dtype), saved.shape, reordered(bytes, saved, true)});
    }
  }
  append_batch_counts(state, context, "model.");
  return state;
}

void write_training_state(Context& context, const StateDict& state, const std::string& source) {
  const CompiledModel& model = context.model();
  const std::vector<SavedTensor> saved = saved_tensors(model);
  check_fits(model, saved, state, source);
  for (const SavedTensor& tensor : saved) {
    const std::vector<std::byte> shared = reordered(state.find(tensor.name)->data, tensor, false);
    for (int rank = 0; rank < context.arenas().ranks(); ++rank) {
      const StateTensor* own = tensor.same_on_ranks ? nullptr : state.find(rank_name(rank, tensor.name));
      const std::vector<std::byte>& bytes = own == nullptr ? shared : own->data;
      context.write(rank, model.plan(Variant::TRAIN_BASE).tensor(tensor.id).offset, bytes.data(),
                    std::ssize(bytes));
    }
  }
  refresh_copies(context);
}

}  // namespace tr
