/// Recomputation, as a recipe asks for it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tr {

/// Which feature maps that backward needs are dropped after forward and computed again: the same bits in
/// fewer bytes and more time.
///   AS_NEEDED  as few as the memory budget asks for; without one, none
///   NONE       none; a budget that is too small is refused
///   CHEAP      only what takes no arithmetic to speak of (batch norm, activations, pooling): as much as
///   lowers
///              the peak or, with a budget, as little as it asks for
///   AUTO       as AS_NEEDED; without a budget, the fewest bytes for MOST_RECOMPUTATION of a step's time
enum class Recompute : uint8_t { AS_NEEDED, NONE, CHEAP, AUTO };
std::string_view recompute_name(Recompute recompute);
/// Of the estimated time of forward and backward.
inline constexpr double MOST_RECOMPUTATION = 0.2;

}  // namespace tr
