#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

Json plan(const TempFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = run_program(folder.path(), arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return Json::parse(outcome.out);
}

const std::vector<std::string> REGION_KEYS{"name", "base", "bytes", "tensors", "enabled"};
const std::vector<std::string> TENSOR_KEYS{"id", "name", "region", "dtype", "shape", "offset", "slot_bytes"};
const std::vector<std::string> VARIANT_KEYS{"name", "input", "shared_with", "waste_bytes", "shapes"};

/// Documented keys in their order; regions, tensors and variants that agree with one another.
void expect_adds_up(const Json& report) {
  EXPECT_EQ(keys(report), (std::vector<std::string>{"total_bytes", "layout", "device", "precision", "ranks",
                                                    "parameters", "regions", "tensors", "variants"}));
  ASSERT_EQ(report["regions"].size(), 68u);
  ASSERT_EQ(report["variants"].size(), 6u);

  std::map<std::string, std::pair<int64_t, int64_t>> of_region;  // tensors, bytes
  int64_t parameters = 0;
  for (size_t i = 0; i < report["tensors"].size(); ++i) {
    const Json& tensor = report["tensors"][i];
    ASSERT_EQ(keys(tensor), TENSOR_KEYS);
    EXPECT_EQ(tensor["id"], i);
    EXPECT_NE(tensor["name"], "");
    const std::string region = tensor["region"];
    of_region[region].first += 1;
    of_region[region].second += tensor["slot_bytes"].get<int64_t>();
    if (!region.starts_with("W_")) continue;
    int64_t elements = 1;
    for (const Json& dim : tensor["shape"]) elements *= dim.get<int64_t>();
    parameters += elements;
  }
  EXPECT_EQ(report["parameters"], parameters);

  int64_t cursor = 0;
  for (const Json& region : report["regions"]) {
    ASSERT_EQ(keys(region), REGION_KEYS);
    const auto& [tensors, bytes] = of_region[region["name"]];
    EXPECT_EQ(region["base"], cursor);
    EXPECT_EQ(region["bytes"], bytes);
    EXPECT_EQ(region["tensors"], tensors);
    cursor += bytes;
  }
  EXPECT_EQ(report["total_bytes"], cursor);
  for (const Json& variant : report["variants"]) EXPECT_EQ(keys(variant), VARIANT_KEYS);
}

TEST(PlanJson, SmallRecipeAddsUp) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Json report = plan(folder, {"r.yaml"});
  expect_adds_up(report);
  EXPECT_EQ(report["device"], "cpu");
  EXPECT_EQ(report["layout"], "linear");
  EXPECT_EQ(report["parameters"], 64 * 16 + 16 + 16 * 4 + 4);

  // 70 training samples in batches of 16 leave 6, 30 validation samples leave 14.
  const Json& variants = report["variants"];
  EXPECT_EQ(variants[0]["name"], "train_base");
  EXPECT_EQ(variants[0]["input"], Json({16, 8, 8, 1}));
  EXPECT_EQ(variants[0]["shared_with"], nullptr);
  EXPECT_EQ(variants[0]["waste_bytes"], 0);
  EXPECT_TRUE(variants[0]["shapes"].empty());
  EXPECT_EQ(variants[1]["input"], Json({6, 8, 8, 1}));
  EXPECT_GT(variants[1]["waste_bytes"], 0);
  EXPECT_FALSE(variants[1]["shapes"].empty());
  EXPECT_EQ(variants[2]["name"], "train_lowres");
  EXPECT_EQ(variants[2]["shared_with"], "train_base");
  EXPECT_EQ(variants[3]["shared_with"], "train_last");
  EXPECT_EQ(variants[5]["input"], Json({14, 8, 8, 1}));
}

TEST(PlanJson, NeedsNeitherDataNorGpu) {
  const TempFolder folder;
  const std::string recipe = std::string(TR_SOURCE_DIR) + "/recipes/imagenet_resnet50.yaml";
  const Json report = plan(folder, {recipe, "--device", "cuda", "--precision", "bf16"});
  expect_adds_up(report);
  EXPECT_EQ(report["device"], "cuda");
  EXPECT_EQ(report["precision"], "bf16");
  EXPECT_EQ(report["parameters"], 25557032);
}

TEST(PlanText, ShowsAllRegions) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome outcome = run_program(folder.path(), {"plan", "r.yaml"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* text :
       {"B_PREV_MEAN", "068  R_RESULT_ACCUMULATED", "off: needs has_ema", "train_lowres_last"})
    EXPECT_THAT(outcome.out, testing::HasSubstr(text));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("parameters +1108\n"));
}

}  // namespace
}  // namespace tr::test
