#include "renaissance/graph/plan_report.h"

#include <algorithm>
#include <iomanip>

#include "graph/plan_report_sections.h"
#include "graph/text_table.h"
#include "renaissance/core/byte_text.h"
#include "renaissance/graph/outside_memory.h"

namespace tr {

namespace {

constexpr std::string_view NOTHING = "–";

std::string device_text(const Target& target) {
  const std::string name(backend_name(target.backend));
  if (target.backend != BackendKind::CUDA) return name;
  return cat(name, ", compute capability ", target.compute_capability / 10, '.',
             target.compute_capability % 10);
}

void zone_facts(const CompiledModel& model, TextTable& table) {
  const PlanImage& image = model.plan(Variant::TRAIN_BASE).image();
  if (image.config.layout == Layout::LINEAR) {
    const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
    int64_t at_once = 0;
    for (const Program program : {Program::TRAIN, Program::EVAL})
      at_once = std::max(at_once, program_memory(model, program).peak_bytes());
    table.row({"  transient regions", human_and_exact(plan.total_bytes() - persistent_bytes(plan))});
    table.row({"  of them alive at once", human_and_exact(at_once)});
    return;
  }
  table.row({"  transient zone", human_and_exact(image.zone_bytes)});
  table.row({"  lower bound of it", human_and_exact(image.zone_lower_bound)});
  table.row({"  overshoot", percent(image.zone_bytes - image.zone_lower_bound, image.zone_lower_bound, 3)});
}

void recompute_facts(const CompiledModel& model, TextTable& table) {
  const RecomputeSummary& again = model.recomputation;
  const std::string mode(recompute_name(model.request.recompute));
  if (model.request.budget_bytes > 0)
    table.row({"memory budget", human_and_exact(model.request.budget_bytes)});
  if (again.values.empty()) return;
  const std::string time = cat(std::fixed, std::setprecision(1), 100.0 * again.time_share, " %");
  table.row(
      {"computed again in backward",
       cat(again.values.size(), " outputs (", mode, "): operations +", percent(again.flops, again.step_flops),
           ", bytes moved +", percent(again.bytes, again.step_bytes), ", time about +", time)});
}

std::string facts(const CompiledModel& model, const PlanTitle& title) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const CompileRequest& request = model.request;
  TextTable table("ll");
  const auto line = [&](const std::string& name, const std::string& value) { table.row({name, value}); };
  if (!title.recipe.empty()) line("recipe", title.recipe);
  if (!title.model.empty()) line("model", title.model);
  line("parameters", cat(model.num_parameters()));
  line("classes", cat(request.classes));
  line("batch of a rank", cat(request.inputs[0].n()));
  line("device", device_text(request.target));
  line("precision", std::string(precision_name(request.config.precision)));
  line("optimizer", std::string(optimizer_name(request.config.optimizer)));
  line("layout", std::string(layout_name(request.config.layout)));
  line("ranks", cat(request.target.ranks));
  line("tensors", cat(plan.num_tensors()));
  line("arena of a rank", human_and_exact(plan.total_bytes()));
  line("  persistent", human_and_exact(persistent_bytes(plan)));
  zone_facts(model, table);
  recompute_facts(model, table);
  if (request.target.ranks > 1)
    line("arenas of all ranks", human_and_exact(plan.total_bytes() * request.target.ranks));
  line("alignment waste of all slots", human_and_exact(alignment_waste_bytes(model, Variant::TRAIN_BASE)));
  return table.str();
}

std::string outside(const CompiledModel& model) {
  const Target& target = model.request.target;
  TextTable table("lll");
  if (target.backend == BackendKind::CPU) {
    table.row({"program and libraries", "unknown", "nothing ahead of a run tells"});
    return table.str();
  }
  table.row({"pinned host memory", human_and_exact(pinned_host_bytes(model)),
             "two slots, from which the next batch is copied"});
  const std::optional<DeviceOverhead> overhead = measured_overhead(target);
  if (!overhead) {
    table.row({"context and libraries", "unknown", "not measured on a card of this compute capability"});
    return table.str();
  }
  table.row({"context and libraries", human_and_exact(overhead->context_bytes),
             cat("measured on ", overhead->card, "; other cards differ")});
  table.row({"captured steps", human_and_exact(overhead->steps_bytes), "the most that was measured there"});
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

std::string plan_text(const CompiledModel& model, const PlanTitle& title) {
  return cat("Memory plan\n", facts(model, title), "\nBeside the arena of a rank\n", outside(model),
             "\nVariants\n", variants(model), "\nRegions\n", regions(model.plan(Variant::TRAIN_BASE)),
             "\nWhat the bytes are for\n", sums_section(model), "\nTransient tensors\n",
             transients_section(model), '\n', peak_section(model, Program::TRAIN), '\n',
             peak_section(model, Program::EVAL), "\nLargest tensors, shapes of train_base\n",
             largest_section(model));
}

}  // namespace tr
