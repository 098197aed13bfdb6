#include "backend/poison.h"

namespace tr {

Poison::Poison(const CompiledModel& model, Program program) : dead_(dead_bytes(model, program)) {
  for (const GraphNode* node : program_nodes(model.graph, program))
    positions_.emplace(node, positions_.size());
}

const std::vector<ByteRange>& Poison::before(const GraphNode& node) const {
  const auto found = positions_.find(&node);
  // What dies later is overwritten after the node that it dies with.
  return found != positions_.end() && found->second == 0 ? dead_[0] : nothing_;
}

const std::vector<ByteRange>& Poison::after(const GraphNode& node) const {
  const auto found = positions_.find(&node);
  return found != positions_.end() ? dead_[found->second + 1] : nothing_;
}

}  // namespace tr
