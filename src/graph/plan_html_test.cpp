#include "renaissance/graph/plan_html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/plan_page.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/graph/plan_report.h"
#include "support/expect_error.h"

namespace tr {
namespace {

using Json = nlohmann::ordered_json;

/// Two tensors that share their bytes, in a program of three nodes.
Json small_plan() {
  return Json::parse(R"({
    "schema": 1, "total_bytes": 1024, "persistent_bytes": 512,
    "outside": {"pinned_host_bytes": 0}, "layout": "packed", "device": "cpu", "precision": "fp32", "parameters": 64,
    "zone": {"base": 512, "bytes": 512, "lower_bound": 512}, "a field of later": [1, 2],
    "regions": [{"name": "W_FC_WEIGHT", "base": 0, "bytes": 512, "tensors": 1},
                {"name": "F_FEATURE_FP32", "base": 512, "bytes": 1024, "tensors": 2}],
    "tensors": [
      {"id": 0, "name": "fc.weight", "region": "W_FC_WEIGHT", "dtype": "fp32", "shape": [8, 1, 1, 8],
       "offset": 0, "slot_bytes": 512, "always": true, "train": null, "in_place_of": null},
      {"id": 1, "name": "fc.out", "region": "F_FEATURE_FP32", "dtype": "fp32", "shape": [8, 1, 1, 8],
       "offset": 512, "slot_bytes": 512, "always": false, "train": [0, 1], "in_place_of": null},
      {"id": 2, "name": "relu.out", "region": "F_FEATURE_FP32", "dtype": "fp32", "shape": [8, 1, 1, 8],
       "offset": 512, "slot_bytes": 512, "always": false, "train": [1, 2], "in_place_of": 1}],
    "programs": [{"name": "train", "peak": {"node": 0},
      "nodes": [{"name": "fc forward", "part": "forward", "live_bytes": 512},
                {"name": "relu forward", "part": "forward", "live_bytes": 512},
                {"name": "loss", "part": "forward", "live_bytes": 512}]}]})");
}

std::string page_of(const std::vector<Json>& plans, const std::vector<std::string>& titles) {
  std::vector<std::string> texts;
  for (const Json& plan : plans) texts.push_back(plan.dump());
  return plan_html(texts, titles);
}

/// What lies between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "no " + begin;
  const size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

Json embedded(const std::string& page) { return Json::parse(between(page, "id=\"plans\">", "</script>")); }

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Whatever names hold, the page's markup is that of the page without plans.
void expect_markup_is_the_pages(const std::string& page) {
  const std::string bare(PLAN_PAGE_HTML);
  for (const char* tag : {"<script", "</script", "<style", "</style", "<body", "</html", "<!--"})
    EXPECT_EQ(count(page, tag), count(bare, tag)) << tag;
  EXPECT_EQ(count(between(page, "<title>", "</title>"), "<"), 0u);
}

TEST(PlanHtml, HoldsThePlansWholeAndLoadsNothing) {
  const Json plan = small_plan();
  const std::string page = page_of({plan, plan}, {"one", "another"});
  EXPECT_EQ(embedded(page),
            (Json{{{"title", "one"}, {"plan", plan}}, {{"title", "another"}, {"plan", plan}}}));
  EXPECT_EQ(between(page, "<title>", "</title>"), "Memory plan of one and another");
  EXPECT_EQ(page.find("{{"), std::string::npos);
  expect_markup_is_the_pages(page);
  for (const char* outside : {"http:", "https:", " src=", "url(", "@import", "fetch("})
    EXPECT_EQ(count(page, outside), 0u) << outside;
  EXPECT_EQ(count(page, "default-src 'none'"), 1u);
}

TEST(PlanHtml, NamesCannotBecomeMarkup) {
  const std::string hostile =
      "</script><script>alert(1)</script><!-- \"'&amp; \\u003c {{plans}} ]]> \u2028 \xC3\xA9 \xE5\xB1\xA4";
  Json plan = small_plan();
  plan["tensors"][1]["name"] = hostile;
  plan["regions"][1]["name"] = plan["tensors"][1]["region"] = plan["tensors"][2]["region"] = hostile;
  plan["programs"][0]["nodes"][0]["name"] = hostile;
  const std::string page = page_of({plan}, {hostile});
  expect_markup_is_the_pages(page);
  EXPECT_EQ(embedded(page), (Json{{{"title", hostile}, {"plan", plan}}}));
  EXPECT_NE(between(page, "<title>", "</title>").find("&lt;/script&gt;"), std::string::npos);
}

TEST(PlanHtml, TitlesThatAreNotUtf8AreMended) {
  const std::string page = page_of({small_plan()}, {"plan \xFF"});
  EXPECT_EQ(between(page, "<title>", "</title>"), "Memory plan of plan \xEF\xBF\xBD");
  EXPECT_EQ(embedded(page)[0]["title"], "plan \xEF\xBF\xBD");
}

TEST(PlanHtml, TakesThePlansOfBothLayouts) {
  CompileRequest request;
  request.model = seq(conv(6, 3, 1, 1), bn(), relu(), gap(), flatten(), fc(5));
  request.inputs.fill(Shape(8, 9, 9, 3));
  request.classes = 5;
  request.target = default_target(BackendKind::CUDA);
  request.plan_only = true;
  for (const Layout layout : {Layout::PACKED, Layout::LINEAR}) {
    request.config.layout = layout;
    const std::string json = plan_json(compile(request, std::make_shared<const Catalog>(make_catalog())));
    EXPECT_EQ(embedded(plan_html(std::vector{json}, std::vector<std::string>{"small"}))[0]["plan"],
              Json::parse(json));
  }
}

TEST(PlanHtml, RefusesWhatIsNoPlan) {
  const std::string plan = small_plan().dump();
  const std::vector<std::string> three{plan, plan, plan}, none;
  test::refuses(ErrorKind::ValueError, "got 0 plans; expected one, or two to compare",
                [&] { plan_html(none, none); });
  test::refuses(ErrorKind::ValueError, "got 3 plans", [&] { plan_html(three, three); });
  test::refuses(ErrorKind::ValueError, "got 0 titles for 1 plans",
                [&] { plan_html(std::vector{plan}, none); });
  test::refuses(ErrorKind::ValueError, "plan 'cut.json': is not JSON at byte",
                [&] { plan_html(std::vector{plan.substr(0, 40)}, std::vector<std::string>{"cut.json"}); });

  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  test::refuses(ErrorKind::ValueError, "plan 'a': nests more than 64 deep",
                [&] { plan_html(std::vector{deep}, std::vector<std::string>{"a"}); });

  const auto expect_refused = [](const std::string& place, const Json& value, const std::string& text) {
    Json changed = small_plan();
    changed[Json::json_pointer(place)] = value;
    test::refuses(ErrorKind::ValueError, "plan 'a': has " + text, [&] { page_of({changed}, {"a"}); });
  };
  expect_refused("/tensors", 7, "the plan whose 'tensors' is 7");
  expect_refused("/zone/base", -1, "zone whose 'base' is -1");
  expect_refused("/zone", 3, "the plan whose 'zone' is 3");
  expect_refused("/total_bytes", 1e30, "the plan whose 'total_bytes' is 1e+30");
  expect_refused("/regions/0", "x", "a region that is not an object");
  expect_refused("/programs", Json::array(), "no programs");
  expect_refused("/programs/0/peak/node", 3, "its peak of program \"train\" at node 3 of 3");
  expect_refused("/programs/0/name", "eval", "no 'eval' in tensor \"fc.weight\"");
  expect_refused("/tensors/2/train", {1, 3}, "tensor \"relu.out\" alive in 'train' from [1,3] of 3 nodes");
  expect_refused("/tensors/2/train", {2, 1}, "tensor \"relu.out\" alive in 'train' from [2,1]");
  expect_refused("/tensors/2/shape", {8, nullptr}, "a tensor whose 'shape' is [8,null]");
  expect_refused("/tensors/2/id", 1, "two tensors of id 1");
  expect_refused("/tensors/2/in_place_of", 9, "tensor \"relu.out\" in place of 9, which does not exist");
  expect_refused("/schema", PLAN_SCHEMA + 1,
                 cat("schema ", PLAN_SCHEMA + 1, ", this program reads up to ", PLAN_SCHEMA));
  expect_refused("/schema", "x", "the plan whose 'schema' is \"x\"");
  Json linear = small_plan();
  linear.erase("zone");
  test::refuses(ErrorKind::ValueError, "has no 'zone' in the plan; save one with 'renaissance plan",
                [&] { page_of({linear}, {"a"}); });
}

}  // namespace
}  // namespace tr
