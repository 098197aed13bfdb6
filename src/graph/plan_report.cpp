#include "renaissance/graph/plan_report.h"

#include <algorithm>
#include <iomanip>
#include <numeric>

#include "graph/text_table.h"

namespace tr {

namespace {

constexpr std::string_view NOTHING = "–";

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

std::string percent(int64_t part, int64_t whole) {
  const double share = whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  return cat(std::fixed, std::setprecision(1), share, " %");
}

std::string device_text(const Target& target) {
  const std::string name(backend_name(target.backend));
  if (target.backend != BackendKind::CUDA) return name;
  return cat(name, ", compute capability ", target.compute_capability / 10, '.',
             target.compute_capability % 10);
}

std::string facts(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const CompileRequest& request = model.request;
  TextTable table("ll");
  table.row({"parameters", cat(model.num_parameters())});
  table.row({"classes", cat(request.classes)});
  table.row({"device", device_text(request.target)});
  table.row({"precision", std::string(precision_name(request.config.precision))});
  table.row({"optimizer", std::string(optimizer_name(request.config.optimizer))});
  table.row({"layout", std::string(layout_name(request.config.layout))});
  table.row({"ranks", cat(request.target.ranks)});
  table.row({"tensors", cat(plan.num_tensors())});
  table.row({"arena of a rank", human_and_exact(plan.total_bytes())});
  if (request.target.ranks > 1)
    table.row({"arenas of all ranks", human_and_exact(plan.total_bytes() * request.target.ranks)});
  return table.str();
}

std::string variants(const CompiledModel& model) {
  TextTable table("lllr");
  table.row({"variant", "input", "captures", "slot bytes beyond its shapes"});
  for (int v = 0; v < NUM_VARIANTS; ++v) {
    const auto variant = static_cast<Variant>(v);
    const Variant owner = capture_owner(model, variant);
    table.row({std::string(variant_name(variant)), model.request.inputs[static_cast<size_t>(v)].str(),
               owner == variant ? "its own" : cat("those of ", variant_name(owner)),
               human_and_exact(variant_waste_bytes(model, variant))});
  }
  return table.str();
}

std::string regions(const MemoryPlan& plan) {
  TextTable table("rllrrrl");
  table.row({"no.", "region", "dtype", "tensors", "base", "bytes", ""});
  for (int r = 0; r < NUM_REGIONS - 1; ++r) {
    const Region region = region_at(r);
    const RegionInfo& info = plan.region_info(region);
    const std::string number = cat(std::setfill('0'), std::setw(3), r + 1), name(region_name(region));
    if (!info.enabled) {
      table.row({number, name, "", "", "", "",
                 cat("off: needs ", region_condition_name(region_traits(region).condition))});
      continue;
    }
    const bool empty = info.tensors == 0;
    const std::string nothing(NOTHING);
    table.row({number, name, std::string(dtype_name(region_dtype(region, plan.config()))),
               empty ? nothing : cat(info.tensors), cat(info.base), empty ? nothing : cat(info.bytes),
               empty ? "" : human_bytes(info.bytes)});
  }
  return table.str();
}

std::string sums(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const int64_t total = plan.total_bytes();
  TextTable table("lrrr");
  const auto line = [&](std::string_view name, int64_t bytes) {
    table.row({std::string(name), cat(bytes), human_bytes(bytes), percent(bytes, total)});
  };
  for (const Group& group : groups()) {
    int64_t bytes = 0;
    for (const auto& [first, last] : group.runs)
      for (int r = index_of(first); r <= index_of(last); ++r) bytes += plan.region_info(region_at(r)).bytes;
    if (bytes > 0) line(group.name, bytes);
  }
  line("arena", total);
  line("of it alignment and spare bytes (train_base)", alignment_waste_bytes(model, Variant::TRAIN_BASE));
  return table.str();
}

std::string largest(const CompiledModel& model) {
  constexpr size_t MOST = 20;
  const std::span<const DTensor> tensors = model.plan(Variant::TRAIN_BASE).tensors();
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].slot_bytes > tensors[b].slot_bytes; });
  order.resize(std::min(order.size(), MOST));
  TextTable table("rllllrr");
  table.row({"id", "tensor", "region", "dtype", "shape", "slot bytes", ""});
  for (const size_t i : order)
    table.row({cat(i), model.tensor_names.at(i), std::string(region_name(tensors[i].region)),
               std::string(dtype_name(tensors[i].dtype)), tensors[i].shape.str(), cat(tensors[i].slot_bytes),
               human_bytes(tensors[i].slot_bytes)});
  return table.str();
}

int64_t own_slot(const DTensor& tensor, BackendKind backend) {
  return slot_bytes(tensor.shape, tensor.dtype, tensor.region, backend);
}

}  // namespace

Variant capture_owner(const CompiledModel& model, Variant variant) {
  const int capture = model.atlas.find(variant, InputBuffer::A);
  return model.atlas.captures().at(static_cast<size_t>(capture)).variant;
}

int64_t variant_waste_bytes(const CompiledModel& model, Variant variant) {
  int64_t waste = 0;
  for (const DTensor& tensor : model.plan(variant).tensors())
    waste += tensor.slot_bytes - own_slot(tensor, model.request.target.backend);
  return waste;
}

int64_t alignment_waste_bytes(const CompiledModel& model, Variant variant) {
  int64_t waste = 0;
  for (const DTensor& tensor : model.plan(variant).tensors())
    waste +=
        own_slot(tensor, model.request.target.backend) - tensor.shape.numel() * dtype_bytes(tensor.dtype);
  return waste;
}

std::string plan_text(const CompiledModel& model) {
  return cat("Memory plan\n", facts(model), "\nVariants\n", variants(model), "\nRegions\n",
             regions(model.plan(Variant::TRAIN_BASE)), "\nWhat the bytes are for\n", sums(model),
             "\nLargest tensors, shapes of train_base\n", largest(model));
}

}  // namespace tr
