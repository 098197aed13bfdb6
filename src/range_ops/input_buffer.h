/// The graph names input buffer A; a capture over buffer B reads B's tensors in their place.
#pragma once

#include "renaissance/graph/compiler.h"

namespace tr {

/// The same id, with input buffer B's tensors in place of A's.
inline TensorId for_buffer(TensorId id, InputBuffer buffer) {
  if (buffer == InputBuffer::A) return id;
  if (id == INPUT_A_DATA) return INPUT_B_DATA;
  return id == INPUT_A_LABEL ? static_cast<TensorId>(INPUT_B_LABEL) : id;
}

}  // namespace tr
