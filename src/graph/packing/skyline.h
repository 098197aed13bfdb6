/// Filling from the bottom: the next item is the one that can start lowest above everything placed at its
/// sections.
#pragma once

#include "graph/packing/placement.h"

namespace tr::packing {

/// The items by rising offset, as filling from the bottom places them: of those that can start lowest, the
/// first in `priority`. Placing the order by first fit needs no more bytes than the filling did. When the
/// budget is used up, the rest follow by priority.
Order skyline_order(const Sections& sections, const Order& priority, Budget& budget);

}  // namespace tr::packing
