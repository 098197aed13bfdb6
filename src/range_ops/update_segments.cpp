#include "range_ops/update_segments.h"

#include <algorithm>

namespace tr {

namespace {

bool has_trust_ratios(const GraphNode& node) {
  return node.range_op == RangeOp::RANGE_TRUST_RATIOS || (is_update(node.range_op) && node.in.size() > 1);
}

}  // namespace

std::vector<UpdateSegment> update_segments(const GraphNode& node, const CompiledModel& model,
                                           const MemoryPlan& plan) {
  constexpr auto ELEMENT_BYTES = static_cast<int64_t>(sizeof(float));
  const bool has_ratios = has_trust_ratios(node);
  const RegionRange& masters = node.range_op == RangeOp::RANGE_TRUST_RATIOS ? node.in.at(1) : node.out.at(0);
  const int64_t base = resolve_region_bounds(plan, masters).first;
  std::vector<const Parameter*> members;
  for (const Parameter& parameter : model.parameters) {
    const DTensor& master = plan.tensor(parameter.tensors.master);
    const bool excluded =
        std::find(node.excluded.begin(), node.excluded.end(), master.id) != node.excluded.end();
    if (master.region >= masters.first && master.region <= masters.last && !excluded)
      members.push_back(&parameter);
  }
  const auto offset = [&](const Parameter* p) { return plan.tensor(p->tensors.master).offset; };
  std::sort(members.begin(), members.end(),
            [&](const Parameter* a, const Parameter* b) { return offset(a) < offset(b); });
  std::vector<UpdateSegment> segments;
  for (const Parameter* parameter : members) {
    const DTensor& master = plan.tensor(parameter->tensors.master);
    const UpdateSegment segment{(master.offset - base) / ELEMENT_BYTES, master.slot_bytes / ELEMENT_BYTES,
                                has_ratios ? parameter->tensors.norm : NO_TENSOR};
    const bool adjoins =
        !segments.empty() && segments.back().first + segments.back().elements == segment.first;
    if (!has_ratios && adjoins)
      segments.back().elements += segment.elements;
    else
      segments.push_back(segment);
  }
  return segments;
}

}  // namespace tr
