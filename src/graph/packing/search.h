/// Improving a packing by moving items within its order.
#pragma once

#include "graph/packing/placement.h"

namespace tr::packing {

/// Starts from the packing that first fit makes of `order`. Each step moves an item that lies above the lower
/// bound to an earlier place, drawn by a seeded generator, and keeps the new order unless it needs more
/// bytes. Stops at `target` bytes or when the budget is used up. Returns the best order.
Order improve_order(const Sections& sections, Placer& placer, Order order, int64_t target, Budget& budget);

}  // namespace tr::packing
