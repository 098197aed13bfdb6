/// A oneDNN primitive whose weights the library wants in a layout of its own: the copy in that layout and
/// the scratchpads are slices of the node's workspace.
#pragma once

#include <optional>

#include "ops/support/cpu.h"

namespace tr {

/// Whether the primitive reads its weights (forward, data) or writes their gradient.
enum class WeightUse : uint8_t { READ, WRITE };

/// Attributes under which oneDNN takes its scratch memory from the caller.
dnnl::primitive_attr user_scratchpad();

class DnnlWeights {
 public:
  /// `arena`: the layout in the arena; `chosen`: the primitive's; `scratchpad`: the primitive's.
  DnnlWeights(const dnnl::engine& engine, const dnnl::memory::desc& arena, const dnnl::memory::desc& chosen,
              const dnnl::memory::desc& scratchpad, WeightUse use);

  struct Placed {
    dnnl::memory weights;  ///< what the primitive is given
    dnnl::memory scratchpad;
    std::optional<DnnlCall> reorder;  ///< run before a primitive that reads, after one that writes
  };
  /// Workspace bytes that place() needs: the same walk.
  int64_t workspace_bytes() const;
  Placed place(const CpuContext& context, void* arena_weights, std::byte* workspace) const;

 private:
  struct Slices {
    std::byte* weights = nullptr;
    std::byte* scratchpad = nullptr;
    int64_t bytes = 0;
  };
  Slices slices(std::byte* workspace) const;

  dnnl::memory::desc arena_, chosen_, scratchpad_;
  std::optional<dnnl::reorder::primitive_desc> reorder_;
  WeightUse use_;
};

/// `primitive` between its reorders, as one call.
Call with_reorder(const DnnlWeights::Placed& placed, WeightUse use, const DnnlCall& primitive);

}  // namespace tr
