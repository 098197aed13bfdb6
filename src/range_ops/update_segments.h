/// Which elements of a block of parameters an optimizer changes.
#pragma once

#include <vector>

#include "renaissance/graph/compiler.h"

namespace tr {

/// Elements [first, first + elements) of every range of an update alike, whole slots.
struct UpdateSegment {
  int64_t first = 0, elements = 0;
  TensorId trust = NO_TENSOR;  ///< the N_* tensor whose ratio scales their learning rate; NO_TENSOR: 1
};

/// Of an update, or of RANGE_TRUST_RATIOS: everything but the node's excluded parameters, in order. With
/// trust ratios each tensor is a segment of its own, else what adjoins is one.
std::vector<UpdateSegment> update_segments(const GraphNode& node, const CompiledModel& model,
                                           const MemoryPlan& plan);

}  // namespace tr
