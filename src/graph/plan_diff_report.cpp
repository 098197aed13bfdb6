#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "graph/plan_diff.h"
#include "graph/text_table.h"
#include "renaissance/core/byte_text.h"
#include "renaissance/core/error.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t MOST_TENSORS = 20;

std::string bytes_text(const std::optional<int64_t>& bytes) { return bytes ? cat(*bytes) : "–"; }

/// "+1.50 GiB"; nothing for no difference.
std::string signed_human_bytes(int64_t bytes) {
  if (bytes == 0) return "";
  return cat(bytes > 0 ? '+' : '-', human_bytes(std::abs(bytes)));
}

void add_change(TextTable& table, std::vector<std::string> names, const PlanChange& change) {
  for (std::string cell : {bytes_text(change.a), bytes_text(change.b),
                           cat(change.difference() > 0 ? "+" : "", change.difference()),
                           signed_human_bytes(change.difference())})
    names.push_back(std::move(cell));
  table.row(std::move(names));
}

std::vector<const PlanChange*> sums(const PlanDiff& diff) {
  std::vector<const PlanChange*> list{&diff.total, &diff.persistent};
  // In the linear layout there is no zone.
  for (const PlanChange* change : {&diff.zone, &diff.lower_bound})
    if (change->a || change->b) list.push_back(change);
  for (const PlanChange& peak : diff.peaks) list.push_back(&peak);
  list.push_back(&diff.pinned_host);
  return list;
}

std::string peak_lines(const PlanDiff& diff) {
  std::string text;
  for (size_t p = 0; p < NUM_PROGRAMS; ++p) {
    const auto& [a, b] = diff.peak_nodes[p];
    text += cat("  ", diff.peaks[p].name, ": ",
                a == b ? cat("at ", a, " in both") : cat("A at ", a, ", B at ", b), '\n');
  }
  return text;
}

std::string regions_text(const PlanDiff& diff) {
  TextTable table("lrrrr");
  table.row({"region", "A", "B", "B - A", ""});
  for (const PlanChange& region : diff.regions)
    if (region.a.value_or(0) > 0 || region.b.value_or(0) > 0) add_change(table, {region.name}, region);
  return table.str();
}

std::string tensors_text(const PlanDiff& diff) {
  const std::string counts = cat("Tensors: ", diff.appeared, " only in B, ", diff.vanished, " only in A, ",
                                 diff.changed, " of other bytes, ", diff.alike, " alike\n");
  if (diff.tensors.empty()) return counts;
  TextTable table("llrrrr");
  table.row({"tensor", "region", "A", "B", "B - A", ""});
  for (size_t i = 0; i < std::min(diff.tensors.size(), MOST_TENSORS); ++i)
    add_change(table, {diff.tensors[i].name, diff.tensors[i].region}, diff.tensors[i]);
  if (diff.tensors.size() > MOST_TENSORS) table.row({cat(diff.tensors.size() - MOST_TENSORS, " more")});
  return counts + table.str();
}

Json bytes_json(const std::optional<int64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

Json change_json(const PlanChange& change) {
  return {{"a", bytes_json(change.a)}, {"b", bytes_json(change.b)}, {"difference", change.difference()}};
}

Json peak_json(const PlanDiff& diff, Program program) {
  Json json = change_json(diff.peaks[static_cast<size_t>(program)]);
  json["a_node"] = diff.peak_nodes[static_cast<size_t>(program)][0];
  json["b_node"] = diff.peak_nodes[static_cast<size_t>(program)][1];
  return json;
}

/// `change` with its names before it.
Json named_json(Json names, const PlanChange& change) {
  names.update(change_json(change));
  return names;
}

}  // namespace

std::string plan_diff_text(const PlanSide& a, const PlanSide& b) {
  const PlanDiff diff = diff_plans(a, b);
  TextTable table("lrrrr");
  table.row({"", "A", "B", "B - A", ""});
  for (const PlanChange* change : sums(diff)) add_change(table, {change->name}, *change);
  return cat("A: ", diff.titles[0], "\nB: ", diff.titles[1], "\n\nBytes\n", table.str(), peak_lines(diff),
             "\nRegions\n", regions_text(diff), '\n', tensors_text(diff));
}

std::string plan_diff_json(const PlanSide& a, const PlanSide& b) {
  const PlanDiff diff = diff_plans(a, b);
  Json regions = Json::array(), largest = Json::array();
  for (const PlanChange& region : diff.regions)
    regions.push_back(named_json({{"name", region.name}}, region));
  for (size_t i = 0; i < std::min(diff.tensors.size(), MOST_TENSORS); ++i) {
    const PlanChange& tensor = diff.tensors[i];
    largest.push_back(named_json({{"name", tensor.name}, {"region", tensor.region}}, tensor));
  }
  const Json report{{"a", diff.titles[0]},
                    {"b", diff.titles[1]},
                    {"total_bytes", change_json(diff.total)},
                    {"persistent_bytes", change_json(diff.persistent)},
                    {"zone_bytes", change_json(diff.zone)},
                    {"zone_lower_bound", change_json(diff.lower_bound)},
                    {"pinned_host_bytes", change_json(diff.pinned_host)},
                    {"train_peak", peak_json(diff, Program::TRAIN)},
                    {"eval_peak", peak_json(diff, Program::EVAL)},
                    {"regions", std::move(regions)},
                    {"tensors",
                     {{"appeared", diff.appeared},
                      {"vanished", diff.vanished},
                      {"changed", diff.changed},
                      {"alike", diff.alike},
                      {"largest", std::move(largest)}}}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tr
