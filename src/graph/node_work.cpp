#include "renaissance/graph/node_work.h"

namespace tr {

namespace {

int64_t compute_bytes(const MemoryPlan& plan, const GraphNode& node) {
  int64_t bytes = 0;
  for (const NodeOperand& operand : node.operands)
    if (operand.port != Port::BASELINE)
      bytes += plan.tensor(operand.id).data_bytes() * ((operand.read ? 1 : 0) + (operand.write ? 1 : 0));
  return bytes;
}

int64_t range_bytes(const MemoryPlan& plan, const GraphNode& node) {
  if (node.to != NO_TENSOR) return 2 * plan.tensor(node.to).data_bytes();
  int64_t bytes = 0;
  for (const TensorId id : node.tensors) bytes += plan.tensor(id).slot_bytes;
  for (const std::vector<RegionRange>* ranges : {&node.in, &node.out})
    for (const RegionRange& range : *ranges) bytes += resolve_region_bounds(plan, range).second;
  return bytes;
}

}  // namespace

NodeWork node_work(const CompiledModel& model, const GraphNode& node, Variant variant) {
  const MemoryPlan& plan = model.plan(variant);
  if (node.kind == NodeKind::RANGE) return {range_bytes(plan, node), 0};
  const OpSpec& spec = *model.ops[static_cast<size_t>(node.op)].entry->spec;
  return {compute_bytes(plan, node), spec.flops(model.query(node.op, variant), node.pass)};
}

}  // namespace tr
