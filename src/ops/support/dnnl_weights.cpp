#include "ops/support/dnnl_weights.h"

#include <algorithm>

namespace tr {

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlWeights::DnnlWeights(const dnnl::engine& engine, const dnnl::memory::desc& arena,
                         const dnnl::memory::desc& chosen, const dnnl::memory::desc& scratchpad,
                         WeightUse use)
    : arena_(arena), chosen_(chosen), scratchpad_(scratchpad), use_(use) {
  if (arena == chosen) return;
  const bool read = use == WeightUse::READ;
  reorder_.emplace(engine, read ? arena : chosen, engine, read ? chosen : arena, user_scratchpad());
}

DnnlWeights::Slices DnnlWeights::slices(std::byte* workspace) const {
  WorkspaceSlices walk(workspace);
  Slices slices;
  size_t scratch_bytes = scratchpad_.get_size();
  if (reorder_) {
    slices.weights = walk.take(static_cast<int64_t>(chosen_.get_size()));
    // The reorder and the primitive run one after the other.
    scratch_bytes = std::max(scratch_bytes, reorder_->scratchpad_desc().get_size());
  }
  slices.scratchpad = walk.take(static_cast<int64_t>(scratch_bytes));
  slices.bytes = walk.bytes();
  return slices;
}

int64_t DnnlWeights::workspace_bytes() const { return slices(nullptr).bytes; }

DnnlWeights::Placed DnnlWeights::place(const CpuContext& context, void* arena_weights,
                                       std::byte* workspace) const {
  const Slices place = slices(workspace);
  const dnnl::engine& engine = context.engine;
  const dnnl::memory arena(arena_, engine, arena_weights);
  Placed placed{arena, dnnl::memory(scratchpad_, engine, place.scratchpad), std::nullopt};
  if (reorder_) {
    placed.weights = dnnl::memory(chosen_, engine, place.weights);
    const bool read = use_ == WeightUse::READ;
    const dnnl::memory scratchpad(reorder_->scratchpad_desc(), engine, place.scratchpad);
    placed.reorder.emplace(
        dnnl::reorder(*reorder_), context.stream,
        std::initializer_list<std::pair<int, dnnl::memory>>{{DNNL_ARG_FROM, read ? arena : placed.weights},
                                                            {DNNL_ARG_TO, read ? placed.weights : arena},
                                                            {DNNL_ARG_SCRATCHPAD, scratchpad}});
  }
  return placed;
}

Call with_reorder(const DnnlWeights::Placed& placed, WeightUse use, const DnnlCall& primitive) {
  if (!placed.reorder) return primitive;
  const DnnlCall& reorder = *placed.reorder;
  const bool read = use == WeightUse::READ;
  return [first = read ? reorder : primitive, second = read ? primitive : reorder] {
    first();
    second();
  };
}

}  // namespace tr
