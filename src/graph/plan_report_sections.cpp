#include "graph/plan_report_sections.h"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <set>

#include "graph/text_table.h"
#include "renaissance/core/byte_text.h"

namespace tr {

namespace {

constexpr size_t MOST_ROWS = 20;

/// A run of regions that people think of as one thing.
struct Group {
  std::string_view name;
  std::vector<std::pair<Region, Region>> runs;
};

std::vector<Group> groups() {
  using R = Region;
  return {{"batch norm statistics", {{R::B_PREV_MEAN, R::B_NEXT_VAR}}},
          {"folded batch norm", {{R::W_EQ_BIAS, R::W_EQ_SCALE}}},
          {"parameters", {{R::W_BN_BIAS, R::W_DEEP_CONV}}},
          {"EMA", {{R::E_BN_BIAS, R::E_DEEP_CONV_FP16}}},
          {"16-bit weights", {{R::A_FC_WEIGHT, R::A_DEEP_CONV}}},
          {"gradients", {{R::G_BN_BIAS, R::G_DEEP_CONV}, {R::G_FC_WEIGHT_FP16, R::G_DEEP_CONV_FP16}}},
          {"accumulated gradients", {{R::GA_BN_BIAS, R::GA_DEEP_CONV}}},
          {"first moments", {{R::M_BN_BIAS, R::M_DEEP_CONV}}},
          {"second moments", {{R::V_BN_BIAS, R::V_DEEP_CONV}}},
          {"norms", {{R::N_FC_WEIGHT, R::N_DEEP_CONV}}},
          {"inputs", {{R::I_A_LABEL, R::I_B_DATA}}},
          {"features", {{R::F_FEATURE_FP32, R::F_FEATURE_FP32}, {R::F_FEATURE_FP16, R::F_FEATURE_FP16}}},
          {"feature gradients",
           {{R::F_GRAD_SLOT_FP32, R::F_GRAD_SLOT_FP32}, {R::F_GRAD_SLOT_FP16, R::F_GRAD_SLOT_FP16}}},
          {"scalars", {{R::S_SCALAR_FP32, R::S_SCALAR_INT8}}},
          {"masks", {{R::S_MASK, R::S_MASK}}},
          {"temporaries", {{R::T_TEMP_FP32, R::T_TEMP_INT8}}},
          {"results", {{R::R_RESULT, R::R_RESULT}, {R::R_PREDICTED_LABEL, R::R_RESULT_ACCUMULATED}}}};
}

bool is_transient(const Group& group) { return region_traits(group.runs.front().first).transient; }

int64_t group_bytes(const MemoryPlan& plan, const Group& group) {
  int64_t bytes = 0;
  for (const auto& [first, last] : group.runs)
    for (int r = index_of(first); r <= index_of(last); ++r) bytes += plan.region_info(region_at(r)).bytes;
  return bytes;
}

/// What a transient tensor is to people.
enum class TransientKind : uint8_t { FEATURE, GRADIENT, MASK, WORKSPACE, NEXT_BATCH, OTHER, END };
constexpr std::array<std::string_view, static_cast<size_t>(TransientKind::END)> KIND_NAMES{
    "features", "feature gradients", "masks", "workspaces", "next batch", "other temporaries"};

struct Workspace {
  TensorId id = NO_TENSOR;
  std::string node;
};

/// Scratch of nodes; one that several nodes share is named after the first.
std::vector<Workspace> workspaces(const CompiledModel& model) {
  std::vector<Workspace> found;
  std::set<TensorId> known;
  for (const Program program : {Program::TRAIN, Program::EVAL})
    for (const GraphNode* node : program_nodes(model.graph, program))
      if (node->workspace != NO_TENSOR && known.insert(node->workspace).second)
        found.push_back({node->workspace, node->name});
  return found;
}

std::vector<TransientKind> transient_kinds(const CompiledModel& model) {
  std::vector<TransientKind> kinds;
  for (const DTensor& tensor : model.plan(Variant::TRAIN_BASE).tensors()) {
    switch (tensor.region) {
      case Region::F_FEATURE_FP32:
      case Region::F_FEATURE_FP16:
        kinds.push_back(TransientKind::FEATURE);
        break;
      case Region::F_GRAD_SLOT_FP32:
      case Region::F_GRAD_SLOT_FP16:
        kinds.push_back(TransientKind::GRADIENT);
        break;
      case Region::S_MASK:
        kinds.push_back(TransientKind::MASK);
        break;
      default:
        kinds.push_back(TransientKind::OTHER);
    }
  }
  for (const Workspace& workspace : workspaces(model))
    kinds[static_cast<size_t>(workspace.id)] = TransientKind::WORKSPACE;
  if (model.raw_input != NO_TENSOR) kinds[static_cast<size_t>(model.raw_input)] = TransientKind::NEXT_BATCH;
  return kinds;
}

/// "layer1.0.conv1 forward … layer1.0.conv1 backward_weight": who touches a tensor first and last.
class LifetimeNames {
 public:
  explicit LifetimeNames(const CompiledModel& model)
      : model_(model),
        nodes_{program_nodes(model.graph, Program::TRAIN), program_nodes(model.graph, Program::EVAL)} {}

  std::string of(TensorId id) const {
    if (is_always_needed(model_, id)) return "always";
    const TransientUse& use = model_.uses[static_cast<size_t>(id)];
    if (use.in(Program::TRAIN).is_used()) return in(use, Program::TRAIN);
    if (use.in(Program::EVAL).is_used()) return cat(in(use, Program::EVAL), " (evaluation)");
    return "never";
  }
  std::string in(TensorId id, Program program) const {
    if (is_always_needed(model_, id)) return "always";
    return in(model_.uses[static_cast<size_t>(id)], program);
  }

 private:
  std::string in(const TransientUse& use, Program program) const {
    const auto name = [&](int32_t position) {
      return nodes_[static_cast<size_t>(program)].at(static_cast<size_t>(position))->name;
    };
    const Lifetime& life = use.in(program);
    return life.first == life.last ? name(life.first) : cat(name(life.first), " … ", name(life.last));
  }

  const CompiledModel& model_;
  std::array<std::vector<const GraphNode*>, NUM_PROGRAMS> nodes_;
};

std::string workspace_line(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const std::vector<Workspace> all = workspaces(model);
  if (all.empty()) return "No node needs a workspace.\n";
  const auto bytes = [&](const Workspace& workspace) { return plan.tensor(workspace.id).slot_bytes; };
  const Workspace& largest = *std::max_element(
      all.begin(), all.end(), [&](const Workspace& a, const Workspace& b) { return bytes(a) < bytes(b); });
  const bool is_shared = model.request.config.layout == Layout::LINEAR;
  return cat(is_shared ? "One workspace for all nodes: " : "Largest workspace: ",
             human_and_exact(bytes(largest)), is_shared ? "" : cat(", of ", largest.node), "\n");
}

}  // namespace

std::string percent(int64_t part, int64_t whole, int digits) {
  const double share = whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  return cat(std::fixed, std::setprecision(digits), share, " %");
}

std::string sums_section(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const bool packed = model.request.config.layout == Layout::PACKED;
  const int64_t total = plan.total_bytes();
  TextTable table("lrrr");
  const auto line = [&](std::string_view name, int64_t bytes) {
    if (bytes > 0) table.row({std::string(name), cat(bytes), human_bytes(bytes), percent(bytes, total)});
  };
  for (const Group& group : groups())
    if (!packed || !is_transient(group)) line(group.name, group_bytes(plan, group));
  if (packed) line("transient zone, shared", plan.image().zone_bytes);
  line("arena", total);
  return table.str();
}

std::string transients_section(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const ProgramMemory training = program_memory(model, Program::TRAIN);
  const std::vector<TransientKind> kinds = transient_kinds(model);
  std::array<int64_t, KIND_NAMES.size()> slots{}, alive{};
  std::array<int, KIND_NAMES.size()> tensors{};
  for (const DTensor& tensor : plan.tensors()) {
    if (!region_traits(tensor.region).transient) continue;
    const auto kind = static_cast<size_t>(kinds[static_cast<size_t>(tensor.id)]);
    tensors[kind] += 1;
    slots[kind] += tensor.slot_bytes;
    alive[kind] += live_bytes_of(model, tensor.id, Program::TRAIN, training.peak);
  }
  const int64_t live = training.peak_bytes();
  TextTable table("lrrrrrr");
  table.row({"", "tensors", "sum of slots", "", "alive at training's peak", "", ""});
  const auto line = [&](std::string_view name, int count, int64_t sum, int64_t now) {
    table.row({std::string(name), cat(count), cat(sum), human_bytes(sum), cat(now), human_bytes(now),
               percent(now, live)});
  };
  for (size_t kind = 0; kind < KIND_NAMES.size(); ++kind)
    if (tensors[kind] > 0) line(KIND_NAMES[kind], tensors[kind], slots[kind], alive[kind]);
  line("all", std::accumulate(tensors.begin(), tensors.end(), 0),
       std::accumulate(slots.begin(), slots.end(), int64_t{0}), live);
  return table.str() + workspace_line(model);
}

std::string largest_section(const CompiledModel& model) {
  const std::span<const DTensor> tensors = model.plan(Variant::TRAIN_BASE).tensors();
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].slot_bytes > tensors[b].slot_bytes; });
  order.resize(std::min(order.size(), MOST_ROWS));
  const LifetimeNames lifetimes(model);
  TextTable table("rllllrrl");
  table.row({"id", "tensor", "region", "dtype", "shape", "slot bytes", "", "needed"});
  for (const size_t i : order)
    table.row({cat(i), model.tensor_names.at(i), std::string(region_name(tensors[i].region)),
               std::string(dtype_name(tensors[i].dtype)), tensors[i].shape.str(), cat(tensors[i].slot_bytes),
               human_bytes(tensors[i].slot_bytes), lifetimes.of(static_cast<TensorId>(i))});
  return table.str();
}

std::string peak_section(const CompiledModel& model, Program program) {
  const ProgramMemory memory = program_memory(model, program);
  const std::span<const DTensor> tensors = model.plan(Variant::TRAIN_BASE).tensors();
  const int64_t live = memory.peak_bytes();
  const LifetimeNames lifetimes(model);
  TextTable table("rllrrl");
  table.row({"id", "tensor", "region", "slot bytes", "", "needed"});
  int64_t shown_bytes = 0;
  size_t shown = 0, taking_over = 0;
  for (const TensorId id : memory.alive_at_peak) {
    const int64_t bytes = live_bytes_of(model, id, program, memory.peak);
    if (bytes == 0) {
      ++taking_over;
      continue;
    }
    if (shown == MOST_ROWS) continue;
    ++shown;
    shown_bytes += bytes;
    const DTensor& tensor = tensors[static_cast<size_t>(id)];
    table.row({cat(id), model.tensor_names.at(static_cast<size_t>(id)),
               std::string(region_name(tensor.region)), cat(bytes), human_bytes(bytes),
               lifetimes.in(id, program)});
  }
  const size_t counted = memory.alive_at_peak.size() - taking_over;
  if (counted > shown)
    table.row(
        {"", cat(counted - shown, " more"), "", cat(live - shown_bytes), human_bytes(live - shown_bytes)});
  return cat("Peak of ", program == Program::TRAIN ? "training" : "evaluation", ": ",
             memory.nodes.at(static_cast<size_t>(memory.peak))->name, ", node ", memory.peak, " of ",
             memory.nodes.size(), ", ", human_and_exact(live), " alive in ", counted, " tensors",
             taking_over > 0 ? cat(", ", taking_over, " more in bytes that they take over") : "", "\n",
             table.str());
}

}  // namespace tr
