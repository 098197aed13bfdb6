#include "graph/plan_diff.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "renaissance/core/error.h"
#include "renaissance/graph/plan_report.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

/// Fields of a saved plan; what is not as plan_json() writes it is a ValueError that names the field.
class PlanReader {
 public:
  explicit PlanReader(const PlanSide& side) : who_(cat("plan '", side.title, "'")) {
    try {
      root_ = Json::parse(side.json);
    } catch (const Json::exception&) {
      refuse("is not JSON, or was cut off");
    }
    if (!root_.is_object() || !root_.contains("schema")) refuse("has no 'schema', so it is not a plan");
    const int64_t schema = integer(root_, "schema");
    TR_CHECK(schema <= PLAN_SCHEMA, ValueError,
             cat(who_, ": schema ", schema, ", this program reads up to ", PLAN_SCHEMA,
                 "; compare with the program that saved it, or a newer one"));
  }

  const Json& root() const { return root_; }

  const Json& field(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) refuse(cat("lacks '", key, "'"));
    return object[key];
  }
  const Json& list(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_array()) refuse(cat("has a '", key, "' that is not a list"));
    return value;
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_string()) refuse(cat("has a '", key, "' that is not text"));
    return value.get<std::string>();
  }
  /// Counts and bytes: sums and differences of them stay within 64 bits.
  int64_t integer(const Json& object, const char* key) const {
    constexpr uint64_t MOST = uint64_t{1} << 62;
    const Json& value = field(object, key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > MOST)
      refuse(cat("has a '", key, "' that is not an integer from 0 to 2^62"));
    return value.get<int64_t>();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::ValueError,
                cat(who_, ": ", what, "; save one with 'renaissance plan RECIPE --json > FILE'"));
  }

 private:
  std::string who_;
  Json root_;
};

void read_zone(const PlanReader& reader, PlanDigest& digest) {
  const Json& zone = reader.field(reader.root(), "zone");
  if (zone.is_null()) return;
  digest.zone_bytes = reader.integer(zone, "bytes");
  digest.zone_lower_bound = reader.integer(zone, "lower_bound");
}

void read_peaks(const PlanReader& reader, PlanDigest& digest) {
  const Json& programs = reader.list(reader.root(), "programs");
  if (programs.size() != NUM_PROGRAMS) reader.refuse(cat("has ", programs.size(), " 'programs', not 2"));
  for (size_t p = 0; p < NUM_PROGRAMS; ++p) {
    const Json& nodes = reader.list(programs[p], "nodes");
    const auto peak = static_cast<size_t>(reader.integer(reader.field(programs[p], "peak"), "node"));
    if (peak >= nodes.size()) reader.refuse("has a 'peak' at a node that does not exist");
    digest.peaks[p] = {reader.text(nodes[peak], "name"), reader.integer(nodes[peak], "live_bytes")};
  }
}

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
  const PlanReader reader(side);
  const Json& root = reader.root();
  PlanDigest digest;
  digest.total_bytes = reader.integer(root, "total_bytes");
  digest.persistent_bytes = reader.integer(root, "persistent_bytes");
  digest.pinned_host_bytes = reader.integer(reader.field(root, "outside"), "pinned_host_bytes");
  read_zone(reader, digest);
  read_peaks(reader, digest);
  for (const Json& region : reader.list(root, "regions"))
    digest.regions.push_back({reader.text(region, "name"), reader.integer(region, "bytes")});
  for (const Json& tensor : reader.list(root, "tensors"))
    digest.tensors.push_back(
        {reader.text(tensor, "name"), reader.text(tensor, "region"), reader.integer(tensor, "slot_bytes")});
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
