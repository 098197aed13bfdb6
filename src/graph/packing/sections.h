/// A packing problem as the packer sees it: checked, sizes rounded up, times replaced by sections.
#pragma once

#include <cstdint>
#include <vector>

#include "renaissance/graph/packing.h"

namespace tr::packing {

/// A section is a moment just before some item ends, after others were born: a largest set of items alive at
/// once. Two items meet in time exactly if their ranges of sections do. There are at most as many sections as
/// items.
struct Item {
  int64_t size = 0;             ///< rounded up to the alignment
  int32_t first = 0, last = 0;  ///< sections, both included
  int64_t lifetime = 0;         ///< upper - lower
  int64_t lower = 0;
  int64_t contention = 0;  ///< largest load of its sections
};

struct Sections {
  std::vector<Item> items;
  std::vector<int64_t> load;                ///< sum of sizes alive, per section
  std::vector<std::vector<int32_t>> extra;  ///< further conflicts, by item; empty when the problem has none
  int64_t lower_bound = 0;                  ///< largest load
};

/// Checks the problem (see pack()) and converts it. O(n log n).
Sections make_sections(const PackingProblem& problem);

}  // namespace tr::packing
