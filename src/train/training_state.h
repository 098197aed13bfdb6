/// Between the arenas and a checkpoint's tensors.
///
/// What a step leaves for the next is saved: every tensor of a persistent region, except what is computed
/// again from the others (16-bit copies, folded statistics), what a step writes before it reads it
/// (gradients, results, input) and the sums of metrics, which the trainer keeps. A region that is new is
/// therefore saved.
///
///   model.<parameter or statistic>   masters and running statistics, as in a state_dict
///   ema.<parameter>, first_moment.<parameter>, second_moment.<parameter>   likewise laid out
///   state.<tensor>                   the rest, as it lies in the arena
///   rank<r>.<one of those>           where rank r's bytes are not rank 0's
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/train/checkpoint.h"

namespace tr {

/// Per rank, the sums of an epoch's metrics so far: the trainer adds them to what is read, and takes them
/// itself.
inline constexpr const char* EPOCH_SUMS = "state.epoch_sums";

/// No metadata. Waits for launched steps.
StateDict read_training_state(Context& context);

/// Strict: DataError, beginning with `source`, lists missing, unexpected and differently shaped tensors,
/// before anything is written. The 16-bit copies follow the masters.
void write_training_state(Context& context, const StateDict& state, const std::string& source);

}  // namespace tr
