#include <nlohmann/json.hpp>

#include "renaissance/graph/outside_memory.h"
#include "renaissance/graph/plan_report.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

Json shape_json(const Shape& shape) { return {shape.n(), shape.h(), shape.w(), shape.c()}; }

Json regions_json(const MemoryPlan& plan) {
  Json list = Json::array();
  for (int r = 0; r < NUM_REGIONS - 1; ++r) {
    const RegionInfo& info = plan.region_info(region_at(r));
    list.push_back({{"name", region_name(region_at(r))},
                    {"base", info.base},
                    {"bytes", info.bytes},
                    {"tensors", info.tensors},
                    {"enabled", info.enabled}});
  }
  return list;
}

Json id_json(TensorId id) { return id == NO_TENSOR ? Json() : Json(id); }

Json lifetime_json(const CompiledModel& model, TensorId id, Program program) {
  const Lifetime& life = model.uses[static_cast<size_t>(id)].in(program);
  return life.is_used() ? Json{life.first, life.last} : Json();
}

/// The bytes that the transient tensors share; null in the linear layout.
Json zone_json(const MemoryPlan& plan) {
  const PlanImage& image = plan.image();
  if (image.config.layout == Layout::LINEAR) return {};
  return {{"base", image.zone_base}, {"bytes", image.zone_bytes}, {"lower_bound", image.zone_lower_bound}};
}

Json recompute_json(const CompiledModel& model) {
  const RecomputeSummary& summary = model.recomputation;
  Json layers = Json::array();
  for (const ValueId value : summary.values)
    layers.push_back(model.arch.layers[static_cast<size_t>(value) - 1].name);
  return {{"mode", recompute_name(model.request.recompute)},
          {"budget_bytes", model.request.budget_bytes},
          {"layers", std::move(layers)},
          {"added_bytes", summary.bytes},
          {"added_flops", summary.flops},
          {"step_bytes", summary.step_bytes},
          {"step_flops", summary.step_flops},
          {"time_share", summary.time_share}};
}

Json programs_json(const CompiledModel& model) {
  Json list = Json::array();
  for (const Program program : {Program::TRAIN, Program::EVAL}) {
    const ProgramMemory memory = program_memory(model, program);
    Json nodes = Json::array();
    for (size_t n = 0; n < memory.nodes.size(); ++n)
      nodes.push_back({{"name", memory.nodes[n]->name},
                       {"part", graph_name(memory.parts[n])},
                       {"live_bytes", memory.live_bytes[n]}});
    list.push_back({{"name", program_name(program)},
                    {"nodes", std::move(nodes)},
                    {"peak", {{"node", memory.peak}, {"tensors", memory.alive_at_peak}}}});
  }
  return list;
}

Json tensors_json(const CompiledModel& model, const MemoryPlan& plan) {
  Json list = Json::array();
  for (const DTensor& tensor : plan.tensors())
    list.push_back({{"id", tensor.id},
                    {"name", model.tensor_names.at(static_cast<size_t>(tensor.id))},
                    {"region", region_name(tensor.region)},
                    {"dtype", dtype_name(tensor.dtype)},
                    {"shape", shape_json(tensor.shape)},
                    {"offset", tensor.offset},
                    {"slot_bytes", tensor.slot_bytes},
                    {"data_bytes", tensor.shape.numel() * dtype_bytes(tensor.dtype)},
                    {"always", is_always_needed(model, tensor.id)},
                    {"train", lifetime_json(model, tensor.id, Program::TRAIN)},
                    {"eval", lifetime_json(model, tensor.id, Program::EVAL)},
                    {"in_place_of", id_json(model.uses[static_cast<size_t>(tensor.id)].in_place_of)}});
  return list;
}

Json variants_json(const CompiledModel& model, const MemoryPlan& base) {
  Json list = Json::array();
  for (int v = 0; v < NUM_VARIANTS; ++v) {
    const auto variant = static_cast<Variant>(v);
    const Variant owner = capture_owner(model, variant);
    Json shapes = Json::array();
    for (const DTensor& tensor : model.plan(variant).tensors())
      if (tensor.shape != base.tensor(tensor.id).shape)
        shapes.push_back({{"id", tensor.id}, {"shape", shape_json(tensor.shape)}});
    list.push_back({{"name", variant_name(variant)},
                    {"input", shape_json(model.request.inputs[static_cast<size_t>(v)])},
                    {"shared_with", owner == variant ? Json() : Json(variant_name(owner))},
                    {"waste_bytes", variant_waste_bytes(model, variant)},
                    {"shapes", std::move(shapes)}});
  }
  return list;
}

Json text_json(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json model_json(const CompiledModel& model, const PlanTitle& title) {
  return {{"name", text_json(title.model)},
          {"recipe", text_json(title.recipe)},
          {"batch", model.request.inputs[0].n()}};
}

Json outside_json(const CompiledModel& model) {
  Json overhead;
  if (const auto measured = measured_overhead(model.request.target))
    overhead = {{"card", measured->card},
                {"context_bytes", measured->context_bytes},
                {"steps_bytes", measured->steps_bytes},
                {"source", measured->source}};
  return {{"pinned_host_bytes", pinned_host_bytes(model)}, {"overhead", std::move(overhead)}};
}

}  // namespace

std::string plan_json(const CompiledModel& model, const PlanTitle& title) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const CompileRequest& request = model.request;
  const Json report{{"schema", PLAN_SCHEMA},
                    {"model", model_json(model, title)},
                    {"total_bytes", plan.total_bytes()},
                    {"persistent_bytes", persistent_bytes(plan)},
                    {"layout", layout_name(request.config.layout)},
                    {"device", backend_name(request.target.backend)},
                    {"precision", precision_name(request.config.precision)},
                    {"ranks", request.target.ranks},
                    {"parameters", model.num_parameters()},
                    {"zone", zone_json(plan)},
                    {"recompute", recompute_json(model)},
                    {"outside", outside_json(model)},
                    {"regions", regions_json(plan)},
                    {"tensors", tensors_json(model, plan)},
                    {"programs", programs_json(model)},
                    {"variants", variants_json(model, plan)}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tr
