/// The graph names input buffer A and the trained weights; a capture over buffer B, or of averaged weights,
/// has other tensors in their place.
#pragma once

#include "renaissance/graph/compiler.h"

namespace tr {

/// The same id, with input buffer B's tensors in place of A's.
inline TensorId for_buffer(TensorId id, InputBuffer buffer) {
  if (buffer == InputBuffer::A) return id;
  if (id == INPUT_A_DATA) return INPUT_B_DATA;
  if (id == INPUT_A_MIX) return INPUT_B_MIX;
  return id == INPUT_A_LABEL ? static_cast<TensorId>(INPUT_B_LABEL) : id;
}

/// What is captured.
struct StepPlace {
  Variant variant;
  InputBuffer buffer;
  StepKind kind = StepKind::WHOLE;
};

/// The tensor that a captured step has where the graph says `id`.
inline TensorId captured_id(const CompiledModel& model, TensorId id, const StepPlace& step) {
  return for_buffer(step.kind == StepKind::AVERAGED ? model.averaged(id) : id, step.buffer);
}

}  // namespace tr
