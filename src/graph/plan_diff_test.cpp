#include "graph/plan_diff.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "renaissance/graph/plan_report.h"
#include "support/expect_error.h"

namespace tr {
namespace {

using Json = nlohmann::ordered_json;

std::string small_plan(int64_t batch, Layout layout = Layout::PACKED, int64_t hidden = 4) {
  CompileRequest request;
  request.model = seq(flatten(), fc(hidden), relu(), fc(3));
  request.inputs.fill(Shape(batch, 4, 4, 1));
  request.classes = 3;
  request.config.layout = layout;
  request.target = default_target(BackendKind::CUDA);
  request.plan_only = true;
  return plan_json(compile(request, std::make_shared<const Catalog>(make_catalog())));
}

Json region(const std::string& name, int64_t base, int64_t bytes) {
  return {{"name", name}, {"base", base}, {"bytes", bytes}, {"tensors", 1}};
}
Json tensor(int id, const std::string& name, const std::string& of_region, int64_t offset, int64_t bytes) {
  return {{"id", id},         {"name", name},     {"region", of_region},   {"dtype", "fp32"},
          {"shape", {1}},     {"offset", offset}, {"slot_bytes", bytes},   {"always", true},
          {"train", nullptr}, {"eval", nullptr},  {"in_place_of", nullptr}};
}

/// A plan as small as one can be.
Json tiny_plan() {
  const Json node{{"name", "a forward"}, {"part", "forward"}, {"live_bytes", 512}};
  const Json program{{"name", "train"}, {"nodes", {node}}, {"peak", {{"node", 0}}}};
  return {{"schema", PLAN_SCHEMA},
          {"total_bytes", 768},
          {"persistent_bytes", 256},
          {"zone", {{"base", 256}, {"bytes", 512}, {"lower_bound", 512}}},
          {"layout", "packed"},
          {"device", "cpu"},
          {"precision", "fp32"},
          {"parameters", 1},
          {"outside", {{"pinned_host_bytes", 0}}},
          {"regions", {region("W_FC_BIAS", 0, 256), region("S_MASK", 256, 512)}},
          {"tensors", {tensor(0, "w", "W_FC_BIAS", 0, 256), tensor(1, "mask", "S_MASK", 256, 512)}},
          {"programs", {program, program}}};
}

TEST(PlanDiff, OfAPlanAgainstItselfIsEmpty) {
  for (const Layout layout : {Layout::PACKED, Layout::LINEAR}) {
    const std::string plan = small_plan(8, layout);
    const PlanDiff diff = diff_plans({"a", plan}, {"b", plan});
    EXPECT_EQ(diff.total.difference(), 0);
    EXPECT_EQ(diff.appeared + diff.vanished + diff.changed, 0);
    EXPECT_EQ(diff.alike, static_cast<int64_t>(Json::parse(plan)["tensors"].size()));
    EXPECT_TRUE(diff.tensors.empty());
    EXPECT_EQ(diff.regions.size(), 74u);
    for (const PlanChange& region : diff.regions) EXPECT_EQ(region.difference(), 0) << region.name;
    EXPECT_EQ(diff.zone.a.has_value(), layout == Layout::PACKED);
  }
}

TEST(PlanDiff, SumsAgreeWithThePlans) {
  const std::string a = small_plan(64), b = small_plan(128);
  const PlanDiff diff = diff_plans({"a", a}, {"b", b});
  const Json json_a = Json::parse(a), json_b = Json::parse(b);
  EXPECT_EQ(diff.total.a, json_a["total_bytes"]);
  EXPECT_EQ(diff.total.b, json_b["total_bytes"]);
  EXPECT_EQ(diff.zone.b, json_b["zone"]["bytes"]);
  EXPECT_EQ(diff.total.difference(), diff.persistent.difference() + diff.zone.difference());
  EXPECT_GT(diff.peaks[0].difference(), 0);
  int64_t by_region = 0, by_tensor = 0;
  for (const PlanChange& region : diff.regions) by_region += region.difference();
  for (const PlanChange& tensor : diff.tensors) by_tensor += tensor.difference();
  EXPECT_EQ(by_region, by_tensor);
  // A slot of parameters does not depend on the batch, one of features does.
  for (const PlanChange& tensor : diff.tensors) EXPECT_FALSE(tensor.region.starts_with("W_")) << tensor.name;
  for (size_t i = 1; i < diff.tensors.size(); ++i)
    EXPECT_GE(std::abs(diff.tensors[i - 1].difference()), std::abs(diff.tensors[i].difference()));
}

TEST(PlanDiff, TensorsAppearVanishAndChange) {
  Json b = tiny_plan();
  b["tensors"][0]["slot_bytes"] = 1024;
  b["tensors"][1]["name"] = "other";
  b["zone"] = nullptr;
  const PlanSide side_a{"a", tiny_plan().dump()}, side_b{"b", b.dump()};
  const PlanDiff diff = diff_plans(side_a, side_b);
  EXPECT_EQ(diff.appeared, 1);
  EXPECT_EQ(diff.vanished, 1);
  EXPECT_EQ(diff.changed, 1);
  EXPECT_EQ(diff.alike, 0);
  ASSERT_EQ(diff.tensors.size(), 3u);
  EXPECT_EQ(diff.tensors[0].name, "w");
  EXPECT_EQ(diff.tensors[0].difference(), 768);
  EXPECT_EQ(diff.tensors[1].name, "mask");
  EXPECT_EQ(diff.tensors[1].difference(), -512);
  EXPECT_EQ(diff.tensors[2].difference(), 512);
  EXPECT_EQ(diff.zone.b, std::nullopt);

  const std::string text = plan_diff_text(side_a, side_b);
  EXPECT_NE(text.find("Tensors: 1 only in B, 1 only in A, 1 of other bytes, 0 alike"), std::string::npos)
      << text;
  EXPECT_NE(text.find("+768"), std::string::npos) << text;
  const Json json = Json::parse(plan_diff_json(side_a, side_b));
  EXPECT_EQ(json["tensors"]["largest"][1],
            (Json{{"name", "mask"}, {"region", "S_MASK"}, {"a", 512}, {"b", nullptr}, {"difference", -512}}));
  EXPECT_EQ(json["zone_bytes"], (Json{{"a", 512}, {"b", nullptr}, {"difference", -512}}));
}

TEST(PlanDiff, RegionsThatOneSideDoesNotKnow) {
  Json b = tiny_plan();
  b["regions"][1]["name"] = "NEW";
  const PlanDiff diff = diff_plans({"a", tiny_plan().dump()}, {"b", b.dump()});
  ASSERT_EQ(diff.regions.size(), 3u);
  EXPECT_EQ(diff.regions[1].name, "S_MASK");
  EXPECT_EQ(diff.regions[1].b, std::nullopt);
  EXPECT_EQ(diff.regions[2].name, "NEW");
  EXPECT_EQ(diff.regions[2].difference(), 512);
}

TEST(PlanDiff, RefusesWhatIsNotAPlanNamingTheSide) {
  const std::string good = tiny_plan().dump();
  const auto refuse = [&](const std::string& bad, const std::string& part) {
    for (const bool is_a : {true, false})
      test::expect_error(ErrorKind::ValueError, {"plan 'bad.json': ", part}, [&] {
        plan_diff_text({is_a ? "bad.json" : "good", is_a ? bad : good},
                       {is_a ? "good" : "bad.json", is_a ? good : bad});
      });
  };
  // Cut off anywhere, it is no plan.
  for (size_t length = 0; length < good.size(); length += 7)
    refuse(good.substr(0, length), ", or was cut off");
  refuse("[1, 2]", "has no 'schema'");
  refuse("{}", "has no 'schema'");

  const auto change = [&](auto edit, const std::string& part) {
    Json json = tiny_plan();
    edit(json);
    refuse(json.dump(), part);
  };
  change([](Json& j) { j["schema"] = PLAN_SCHEMA + 1; }, "has schema 2, this program reads up to 1; use");
  change([](Json& j) { j["schema"] = "x"; }, "the plan whose 'schema' is \"x\"");
  const Json tiny = tiny_plan();
  for (const auto& [key, value] : tiny.items())
    if (key != "schema")
      change([&key = key](Json& j) { j.erase(key); }, cat("has no '", key, "' in the plan"));
  change([](Json& j) { j["total_bytes"] = -1; }, "whose 'total_bytes' is -1");
  change([](Json& j) { j["total_bytes"] = 1.5; }, "whose 'total_bytes' is 1.5");
  change([](Json& j) { j["total_bytes"] = uint64_t{1} << 63; }, "whose 'total_bytes' is 9223372036854775808");
  change([](Json& j) { j["regions"] = 3; }, "whose 'regions' is 3");
  change([](Json& j) { j["regions"][0] = 3; }, "a region that is not an object");
  change([](Json& j) { j["tensors"][0]["name"] = 3; }, "whose 'name' is 3");
  change([](Json& j) { j["programs"].erase(1); }, "has 1 'programs', not 2");
  change([](Json& j) { j["programs"][0]["peak"]["node"] = 1; },
         "its peak of program \"train\" at node 1 of 1");
}

}  // namespace
}  // namespace tr
