/// What a node must at least do: the floor that its time is compared with. No device is asked.
#pragma once

#include "renaissance/graph/compiler.h"

namespace tr {

struct NodeWork {
  int64_t bytes = 0;  ///< read and written by one rank, each operand and each range moved once
  int64_t flops = 0;  ///< of the operator's arithmetic; 0 where bytes decide
};

/// Of one node of `model`'s graph under the plan of `variant`. A COMPUTE node's scalars, labels
/// (Port::BASELINE) and workspace do not count.
NodeWork node_work(const CompiledModel& model, const GraphNode& node, Variant variant);

}  // namespace tr
