/// What a compiled model's memory looks like: for people, and for programs (docs/json.md).
///
///   std::cout << plan_text(compile(request, catalog), {"resnet50", "my recipe"});
#pragma once

#include <string>

#include "renaissance/graph/compiler.h"

namespace tr {

/// What a plan is of; a compiled model does not know.
struct PlanTitle {
  std::string model;   ///< a name of the zoo; empty for layers written out
  std::string recipe;  ///< the recipe's name; empty without one
};

/// Of the JSON form. Rises when a program that reads the former one would misread the new one.
inline constexpr int64_t PLAN_SCHEMA = 1;

/// The model's facts, what lies beside the arena, the six variants, all 74 regions, what the bytes are for,
/// the fullest moments of training and evaluation, the largest tensors. UTF-8, ends with a newline.
std::string plan_text(const CompiledModel& model, const PlanTitle& title = {});

/// The same as one JSON object on one line, without a newline. Bytes of a title that are not UTF-8 are
/// replaced.
std::string plan_json(const CompiledModel& model, const PlanTitle& title = {});

/// The transient tensors' memory over the nodes of a program, slots of train_base.
struct ProgramMemory {
  std::vector<const GraphNode*> nodes;  ///< in the order they run; the model owns them
  std::vector<GraphId> parts;           ///< of each node
  std::vector<int64_t> live_bytes;      ///< needed while each node runs; bytes taken over count once
  int peak = 0;                         ///< the first node with the most
  std::vector<TensorId> alive_at_peak;  ///< the largest first

  int64_t peak_bytes() const { return live_bytes.at(static_cast<size_t>(peak)); }
};
ProgramMemory program_memory(const CompiledModel& model, Program program);

/// What `tensor` adds to live_bytes of the node at `position`: its slot, or 0 where it is not needed, is not
/// transient, or has bytes that are counted with the tensor it takes them over from.
int64_t live_bytes_of(const CompiledModel& model, TensorId tensor, Program program, int position);

/// Bytes that keep their place through all steps: the arena without its transient regions.
int64_t persistent_bytes(const MemoryPlan& plan);

/// Whether `tensor` keeps its bytes through whole steps: all that is not transient, and what is always
/// needed.
bool is_always_needed(const CompiledModel& model, TensorId tensor);

/// The variant whose captures `variant` uses: itself, or the first one of the same input shape.
Variant capture_owner(const CompiledModel& model, Variant variant);

/// Slot bytes that the shapes of one variant do not need, because a slot is the largest over the variants.
int64_t variant_waste_bytes(const CompiledModel& model, Variant variant);

/// Slot bytes of one variant that are alignment and spare bytes around its tensors' elements.
int64_t alignment_waste_bytes(const CompiledModel& model, Variant variant);

}  // namespace tr
