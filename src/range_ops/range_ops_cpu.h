/// RANGE nodes on the CPU, bound to one rank's arena (or all of them, for collectives).
#pragma once

#include <vector>

#include "renaissance/graph/compiler.h"

namespace tr {

struct RangeBinding {
  const GraphNode& node;
  const CompiledModel& model;
  const MemoryPlan& plan;
  std::byte* base;            ///< the rank's arena
  TensorId from = NO_TENSOR;  ///< node.from for the input buffer in question

  float* floats(TensorId id) const { return reinterpret_cast<float*>(base + plan.tensor(id).offset); }
  float* scalar(BaselineId id) const { return floats(id); }
  int32_t* counter(BaselineId id) const { return reinterpret_cast<int32_t*>(base + plan.tensor(id).offset); }
};

/// A run of FP32 elements, slot padding included.
struct FloatRange {
  float* data = nullptr;
  int64_t elements = 0;
};
FloatRange float_range(const RangeBinding& binding, const RegionRange& range);

/// Empty for a range without bytes; NotSupportedError for an operation that the CPU does not offer.
Call bind_range_cpu(const RangeBinding& binding);
Call bind_collective_cpu(const GraphNode& node, const CompiledModel& model, const MemoryPlan& plan,
                         const std::vector<std::byte*>& bases);

// One file each; called by bind_range_cpu.
Call bind_update_cpu(const RangeBinding& binding);
Call bind_memory_cpu(const RangeBinding& binding);
Call bind_cast_cpu(const RangeBinding& binding);
Call bind_watch_cpu(const RangeBinding& binding);
Call bind_clip_cpu(const RangeBinding& binding);
Call bind_trust_cpu(const RangeBinding& binding);
Call bind_ema_cpu(const RangeBinding& binding);
Call bind_accumulate_cpu(const RangeBinding& binding);
Call bind_fold_cpu(const RangeBinding& binding);

}  // namespace tr
