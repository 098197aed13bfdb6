/// Filling from the bottom: the next item is the one that can start lowest above everything placed at its
/// sections.
#pragma once

#include <vector>

#include "graph/packing/placement.h"

namespace tr::packing {

/// Largest value over a range under "raise a range to at least v", both in O(log n).
class RangeMax {
 public:
  explicit RangeMax(size_t size);
  void raise(int32_t first, int32_t last, int64_t value);
  int64_t largest(int32_t first, int32_t last) const;

 private:
  size_t leaves_;
  std::vector<int64_t> largest_, raised_;  // by node: of its leaves; what was raised for all of them at once
};

/// The items by rising offset, as filling from the bottom places them: of those that can start lowest, the
/// first in `priority`. Looks at items at most `most_looks` times; then the rest follow by priority. Placing
/// the order by first fit needs no more bytes than the filling did.
Order skyline_order(const Sections& sections, const Order& priority, int64_t most_looks, Budget& budget);

}  // namespace tr::packing
