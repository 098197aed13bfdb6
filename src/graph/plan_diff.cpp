#include "graph/plan_diff.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "graph/saved_plan.h"
#include "renaissance/core/error.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

/// `items` of one side, by name.
template <typename Item>
std::unordered_map<std::string_view, const Item*> by_name(const std::vector<Item>& items) {
  std::unordered_map<std::string_view, const Item*> found;
  for (const Item& item : items) found.emplace(item.name, &item);
  return found;
}

std::vector<PlanChange> diff_regions(const PlanDigest& a, const PlanDigest& b) {
  std::vector<PlanChange> changes;
  const auto of_a = by_name(a.regions), of_b = by_name(b.regions);
  for (const PlanDigest::Region& region : a.regions) {
    const auto other = of_b.find(region.name);
    changes.push_back({region.name, "", region.bytes,
                       other == of_b.end() ? std::nullopt : std::optional(other->second->bytes)});
  }
  for (const PlanDigest::Region& region : b.regions)
    if (!of_a.contains(region.name)) changes.push_back({region.name, "", std::nullopt, region.bytes});
  return changes;
}

void diff_tensors(const PlanDigest& a, const PlanDigest& b, PlanDiff& diff) {
  const auto of_a = by_name(a.tensors), of_b = by_name(b.tensors);
  for (const PlanDigest::Tensor& tensor : a.tensors) {
    const auto other = of_b.find(tensor.name);
    if (other == of_b.end()) {
      ++diff.vanished;
      diff.tensors.push_back({tensor.name, tensor.region, tensor.bytes, std::nullopt});
    } else if (other->second->bytes != tensor.bytes) {
      ++diff.changed;
      diff.tensors.push_back({tensor.name, tensor.region, tensor.bytes, other->second->bytes});
    } else {
      ++diff.alike;
    }
  }
  for (const PlanDigest::Tensor& tensor : b.tensors) {
    if (of_a.contains(tensor.name)) continue;
    ++diff.appeared;
    diff.tensors.push_back({tensor.name, tensor.region, std::nullopt, tensor.bytes});
  }
  std::stable_sort(diff.tensors.begin(), diff.tensors.end(), [](const PlanChange& x, const PlanChange& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
}

}  // namespace

PlanDigest read_plan_digest(const PlanSide& side) {
  const Json root = read_saved_plan(side.title, side.json);
  PlanDigest digest;
  digest.total_bytes = root["total_bytes"];
  digest.persistent_bytes = root["persistent_bytes"];
  digest.pinned_host_bytes = root["outside"]["pinned_host_bytes"];
  if (const Json& zone = root["zone"]; !zone.is_null()) {
    digest.zone_bytes = zone["bytes"].get<int64_t>();
    digest.zone_lower_bound = zone["lower_bound"].get<int64_t>();
  }
  const Json& programs = root["programs"];
  TR_CHECK(programs.size() == NUM_PROGRAMS, ValueError,
           cat("plan '", side.title, "': has ", programs.size(), " 'programs', not ", NUM_PROGRAMS));
  for (size_t p = 0; p < NUM_PROGRAMS; ++p) {
    const Json& node = programs[p]["nodes"][programs[p]["peak"]["node"].get<size_t>()];
    digest.peaks[p] = {node["name"], node["live_bytes"]};
  }
  for (const Json& region : root["regions"]) digest.regions.push_back({region["name"], region["bytes"]});
  for (const Json& tensor : root["tensors"])
    digest.tensors.push_back({tensor["name"], tensor["region"], tensor["slot_bytes"]});
  return digest;
}

PlanDiff diff_plans(const PlanSide& side_a, const PlanSide& side_b) {
  const PlanDigest a = read_plan_digest(side_a), b = read_plan_digest(side_b);
  PlanDiff diff;
  diff.titles = {side_a.title, side_b.title};
  diff.total = {"arena of a rank", "", a.total_bytes, b.total_bytes};
  diff.persistent = {"persistent", "", a.persistent_bytes, b.persistent_bytes};
  diff.zone = {"transient zone", "", a.zone_bytes, b.zone_bytes};
  diff.lower_bound = {"lower bound of it", "", a.zone_lower_bound, b.zone_lower_bound};
  diff.pinned_host = {"pinned host memory", "", a.pinned_host_bytes, b.pinned_host_bytes};
  for (size_t p = 0; p < NUM_PROGRAMS; ++p) {
    diff.peaks[p] = {p == 0 ? "peak of training" : "peak of evaluation", "", a.peaks[p].bytes,
                     b.peaks[p].bytes};
    diff.peak_nodes[p] = {a.peaks[p].node, b.peaks[p].node};
  }
  diff.regions = diff_regions(a, b);
  diff_tensors(a, b, diff);
  return diff;
}

}  // namespace tr
