/// From a graph to the lifetimes of its transient tensors.
#pragma once

#include <vector>

#include "renaissance/graph/compiler.h"

namespace tr {

/// When each transient tensor of the model is needed, by id, and which of them take over another's bytes.
/// Needs the model's plans (registered), graph, operators and raw_input.
std::vector<TransientUse> transient_uses(const CompiledModel& model);

/// Bytes [offset, offset + bytes) of an arena.
struct ByteRange {
  int64_t offset = 0, bytes = 0;
  int64_t end() const { return offset + bytes; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// What a program may find overwritten: entry 0, before its first node, is all of the transient regions;
/// entry n + 1, after its node n, the slots whose last user that node is. Bytes of tensors that are always
/// needed, or that a later node still needs (a takeover too), are left out. Sorted, adjacent ranges merged;
/// the same for every variant.
std::vector<std::vector<ByteRange>> dead_bytes(const CompiledModel& model, Program program);

}  // namespace tr
