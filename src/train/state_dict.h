/// Between the arena (K,R,S,C; columns of a flattened map in h,w,c order) and the door (torchvision's
/// [K,C,R,S]; columns in c,h,w order).
#pragma once

#include <vector>

#include "renaissance/backend/backend.h"
#include "renaissance/train/checkpoint.h"

namespace tr {

/// Element `i` of the arena's order is element door_order(spec)[i] of the door's.
std::vector<int64_t> door_order(const ParamSpec& spec);

StateDict read_state_dict(Context& context);
void write_state_dict(Context& context, const StateDict& state);

}  // namespace tr
