#include <algorithm>

#include "renaissance/graph/plan_report.h"

namespace tr {

bool is_always_needed(const CompiledModel& model, TensorId tensor) {
  const DTensor& t = model.plan(Variant::TRAIN_BASE).tensor(tensor);
  return !region_traits(t.region).transient || model.uses[static_cast<size_t>(tensor)].always;
}

int64_t live_bytes_of(const CompiledModel& model, TensorId tensor, Program program, int position) {
  const DTensor& t = model.plan(Variant::TRAIN_BASE).tensor(tensor);
  if (!region_traits(t.region).transient) return 0;
  const TransientUse& use = model.uses[static_cast<size_t>(tensor)];
  if (use.always) return t.slot_bytes;
  const Lifetime& life = use.in(program);
  if (!life.is_used() || position < life.first || position > life.last) return 0;
  const bool is_taken_over_now = use.in_place_of != NO_TENSOR && position == life.first;
  return is_taken_over_now ? 0 : t.slot_bytes;
}

int64_t persistent_bytes(const MemoryPlan& plan) {
  if (plan.config().layout == Layout::PACKED) return plan.total_bytes() - plan.image().zone_bytes;
  int64_t bytes = plan.total_bytes();
  for (int r = 0; r < NUM_REGIONS - 1; ++r)
    if (region_traits(region_at(r)).transient) bytes -= plan.region_info(region_at(r)).bytes;
  return bytes;
}

ProgramMemory program_memory(const CompiledModel& model, Program program) {
  ProgramMemory memory;
  for (const GraphId part : program_parts(program))
    for (const GraphNode& node : model.graph.part(part)) {
      memory.nodes.push_back(&node);
      memory.parts.push_back(part);
    }
  // Changes from one node to the next, then their running sum.
  memory.live_bytes.assign(memory.nodes.size() + 1, 0);
  for (const DTensor& tensor : model.plan(Variant::TRAIN_BASE).tensors()) {
    if (!region_traits(tensor.region).transient) continue;
    const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
    const Lifetime& life = use.in(program);
    if (use.always) {
      memory.live_bytes[0] += tensor.slot_bytes;
    } else if (life.is_used()) {
      // Taken over bytes are counted with the tensor that had them before, up to its last user.
      const int32_t first = life.first + (use.in_place_of == NO_TENSOR ? 0 : 1);
      memory.live_bytes[static_cast<size_t>(first)] += tensor.slot_bytes;
      memory.live_bytes[static_cast<size_t>(life.last) + 1] -= tensor.slot_bytes;
    }
  }
  for (size_t n = 1; n < memory.nodes.size(); ++n) memory.live_bytes[n] += memory.live_bytes[n - 1];
  memory.live_bytes.pop_back();
  memory.peak = static_cast<int>(std::max_element(memory.live_bytes.begin(), memory.live_bytes.end()) -
                                 memory.live_bytes.begin());
  const std::span<const DTensor> tensors = model.plan(Variant::TRAIN_BASE).tensors();
  for (const DTensor& tensor : tensors) {
    if (!region_traits(tensor.region).transient) continue;
    const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
    const Lifetime& life = use.in(program);
    if (use.always || (life.is_used() && life.first <= memory.peak && memory.peak <= life.last))
      memory.alive_at_peak.push_back(tensor.id);
  }
  std::stable_sort(memory.alive_at_peak.begin(), memory.alive_at_peak.end(), [&](TensorId a, TensorId b) {
    return tensors[static_cast<size_t>(a)].slot_bytes > tensors[static_cast<size_t>(b)].slot_bytes;
  });
  return memory;
}

}  // namespace tr
