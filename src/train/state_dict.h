/// Between the arena (K,R,S,C; columns of a flattened map in h,w,c order) and the door (torchvision's
/// [K,C,R,S]; columns in c,h,w order).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/backend/backend.h"
#include "renaissance/train/checkpoint.h"

namespace tr {

/// Element `i` of the arena's order is element door_order(spec)[i] of the door's.
std::vector<int64_t> door_order(const ParamSpec& spec);

/// torch counts batches; the count changes nothing with a fixed momentum, but strict loading wants it.
inline constexpr std::string_view BATCH_COUNT = ".num_batches_tracked";
/// Adds <prefix><layer>.num_batches_tracked of every batch norm: the updates so far.
void append_batch_counts(StateDict& state, Context& context, std::string_view prefix);

StateDict read_state_dict(Context& context);
/// With the averaged weights in place of the trained ones; StateError where the model has none.
StateDict read_averaged_state_dict(Context& context);
/// After check_state_dict(). Parameters and statistics that a glob of `except` matches keep their values.
void write_state_dict(Context& context, const StateDict& state, const std::vector<std::string>& except = {});
/// DataError that lists missing, unexpected and different tensors, those that `except` matches left aside;
/// where only one layer differs, it says how to leave it out. F16 and BF16 are as good as F32.
/// num_batches_tracked of batch norm may be there or not. RecipeError for a glob that matches nothing in the
/// model, with the nearest that would.
void check_state_dict(const CompiledModel& model, const StateDict& state,
                      const std::vector<std::string>& except = {});
/// `state` after check_state_dict(): in FP32, in the model's order, with num_batches_tracked (0 where it has
/// none).
StateDict canonical_state_dict(const CompiledModel& model, const StateDict& state);
/// Computes the 16-bit copies of weights, where there are any, from the masters.
void refresh_copies(Context& context);

}  // namespace tr
