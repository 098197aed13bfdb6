/// Plans as read from their JSON form, and the comparison of two.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/graph/graph_atlas.h"
#include "renaissance/graph/plan_diff.h"

namespace tr {

/// What a comparison looks at.
struct PlanDigest {
  struct Region {
    std::string name;
    int64_t bytes = 0;
  };
  struct Tensor {
    std::string name, region;
    int64_t bytes = 0;  ///< of its slot
  };
  struct Peak {
    std::string node;
    int64_t bytes = 0;
  };
  int64_t total_bytes = 0, persistent_bytes = 0, pinned_host_bytes = 0;
  std::optional<int64_t> zone_bytes, zone_lower_bound;  ///< layout packed only
  std::array<Peak, NUM_PROGRAMS> peaks;                 ///< by Program
  std::vector<Region> regions;
  std::vector<Tensor> tensors;
};

/// Throws ValueError as plan_diff_text() does.
PlanDigest read_plan_digest(const PlanSide& side);

/// One thing on both sides; nothing where a side does not have it.
struct PlanChange {
  std::string name, region;
  std::optional<int64_t> a, b;

  int64_t difference() const { return b.value_or(0) - a.value_or(0); }
};

struct PlanDiff {
  std::array<std::string, 2> titles;
  PlanChange total, persistent, zone, lower_bound, pinned_host;
  std::array<PlanChange, NUM_PROGRAMS> peaks;                       ///< by Program
  std::array<std::array<std::string, 2>, NUM_PROGRAMS> peak_nodes;  ///< by Program and side
  std::vector<PlanChange> regions;                                  ///< all of both, in their order
  std::vector<PlanChange> tensors;  ///< those that differ, the largest difference first
  int64_t appeared = 0, vanished = 0, changed = 0, alike = 0;  ///< tensors, matched by name
};

PlanDiff diff_plans(const PlanSide& a, const PlanSide& b);

}  // namespace tr
