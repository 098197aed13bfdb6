#include <nlohmann/json.hpp>

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

Json tensors_json(const CompiledModel& model, const MemoryPlan& plan) {
  Json list = Json::array();
  for (const DTensor& tensor : plan.tensors())
    list.push_back({{"id", tensor.id},
                    {"name", model.tensor_names.at(static_cast<size_t>(tensor.id))},
                    {"region", region_name(tensor.region)},
                    {"dtype", dtype_name(tensor.dtype)},
                    {"shape", shape_json(tensor.shape)},
                    {"offset", tensor.offset},
                    {"slot_bytes", tensor.slot_bytes}});
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

}  // namespace

std::string plan_json(const CompiledModel& model) {
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const CompileRequest& request = model.request;
  const Json report{{"total_bytes", plan.total_bytes()},
                    {"layout", layout_name(request.config.layout)},
                    {"device", backend_name(request.target.backend)},
                    {"precision", precision_name(request.config.precision)},
                    {"ranks", request.target.ranks},
                    {"parameters", model.num_parameters()},
                    {"regions", regions_json(plan)},
                    {"tensors", tensors_json(model, plan)},
                    {"variants", variants_json(model, plan)}};
  return report.dump();
}

}  // namespace tr
