#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

using Keys = std::vector<std::string>;

const Keys REPORT_KEYS{
    "schema",     "model", "total_bytes", "persistent_bytes", "layout",  "device",  "precision", "ranks",
    "parameters", "zone",  "recompute",   "outside",          "regions", "tensors", "programs",  "variants"};
const Keys REGION_KEYS{"name", "base", "bytes", "tensors", "enabled"};
const Keys TENSOR_KEYS{"id",         "name",       "region", "dtype", "shape", "offset",
                       "slot_bytes", "data_bytes", "always", "train", "eval",  "in_place_of"};
const Keys VARIANT_KEYS{"name", "input", "shared_with", "waste_bytes", "shapes"};

bool is_transient(std::string_view region) {
  return region.starts_with("F_") || region == "S_MASK" || region.starts_with("T_");
}

bool is_packed(const Json& report) { return report["layout"] == "packed"; }

/// Documented keys in their order.
void expect_keys(const Json& report) {
  EXPECT_EQ(keys(report), REPORT_KEYS);
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(keys(report["model"]), (Keys{"name", "recipe", "batch"}));
  EXPECT_EQ(keys(report["outside"]), (Keys{"pinned_host_bytes", "overhead"}));
  if (is_packed(report))
    EXPECT_EQ(keys(report["zone"]), (Keys{"base", "bytes", "lower_bound"}));
  else
    EXPECT_EQ(report["zone"], nullptr);
  ASSERT_EQ(report["regions"].size(), 74u);
  for (const Json& region : report["regions"]) ASSERT_EQ(keys(region), REGION_KEYS);
  for (const Json& tensor : report["tensors"]) ASSERT_EQ(keys(tensor), TENSOR_KEYS);
  ASSERT_EQ(report["programs"].size(), 2u);
  for (const Json& program : report["programs"]) {
    ASSERT_EQ(keys(program), (Keys{"name", "nodes", "peak"}));
    ASSERT_EQ(keys(program["peak"]), (Keys{"node", "tensors"}));
    for (const Json& node : program["nodes"]) ASSERT_EQ(keys(node), (Keys{"name", "part", "live_bytes"}));
  }
  ASSERT_EQ(report["variants"].size(), 6u);
  for (const Json& variant : report["variants"]) EXPECT_EQ(keys(variant), VARIANT_KEYS);
}

/// Regions follow one another; transient ones of a packed plan are the zone, which counts once. Every tensor
/// lies in its region, or in the zone.
void expect_layout(const Json& report) {
  const bool packed = is_packed(report);
  std::map<std::string, std::pair<int64_t, int64_t>> of_region;  // tensors, bytes
  for (const Json& tensor : report["tensors"]) {
    of_region[tensor["region"]].first += 1;
    of_region[tensor["region"]].second += tensor["slot_bytes"].get<int64_t>();
  }
  int64_t cursor = 0, persistent = 0;
  bool zone_is_passed = false;
  std::map<std::string, std::pair<int64_t, int64_t>> span;  // of each region
  for (const Json& region : report["regions"]) {
    const std::string name = region["name"];
    const auto& [tensors, bytes] = of_region[name];
    EXPECT_EQ(region["tensors"], tensors) << name;
    EXPECT_EQ(region["bytes"], bytes) << name;
    const bool in_zone = packed && is_transient(name);
    if (in_zone && !zone_is_passed) {
      EXPECT_EQ(report["zone"]["base"], cursor);
      cursor += report["zone"]["bytes"].get<int64_t>();
      zone_is_passed = true;
    }
    EXPECT_EQ(region["base"], in_zone ? report["zone"]["base"].get<int64_t>() : cursor) << name;
    if (!in_zone) cursor += bytes;
    if (!is_transient(name)) persistent += bytes;
    const int64_t base = region["base"];
    span[name] = {base, base + (in_zone ? report["zone"]["bytes"].get<int64_t>() : bytes)};
  }
  EXPECT_EQ(report["total_bytes"], cursor);
  EXPECT_EQ(report["persistent_bytes"], persistent);
  for (const Json& tensor : report["tensors"]) {
    const auto& [begin, end] = span[tensor["region"]];
    EXPECT_GE(tensor["offset"], begin) << tensor["name"];
    EXPECT_LE(tensor["offset"].get<int64_t>() + tensor["slot_bytes"].get<int64_t>(), end) << tensor["name"];
  }
}

/// Whether a tensor is needed by node `n` of a program.
bool is_needed(const Json& tensor, const std::string& program, int64_t n) {
  if (!is_transient(tensor["region"].get<std::string>())) return false;
  if (tensor["always"]) return true;
  const Json& life = tensor[program];
  return !life.is_null() && life[0] <= n && n <= life[1];
}

/// Lifetimes lie within their program, and the largest sum of them is the peak and the lower bound.
void expect_lifetimes(const Json& report) {
  int64_t largest = 0;
  for (const Json& program : report["programs"]) {
    const std::string name = program["name"];
    const Json& nodes = program["nodes"];
    for (const Json& tensor : report["tensors"]) {
      EXPECT_EQ(tensor["always"] && !tensor["train"].is_null() &&
                    !is_transient(tensor["region"].get<std::string>()),
                false)
          << tensor["name"] << " is persistent and has a lifetime";
      if (tensor[name].is_null()) continue;
      ASSERT_EQ(tensor[name].size(), 2u);
      EXPECT_LE(0, tensor[name][0]);
      EXPECT_LE(tensor[name][0], tensor[name][1]);
      EXPECT_LT(tensor[name][1], nodes.size());
    }
    int64_t most = 0;
    for (const Json& node : nodes) most = std::max(most, node["live_bytes"].get<int64_t>());
    const int64_t peak = program["peak"]["node"];
    EXPECT_EQ(nodes.at(static_cast<size_t>(peak))["live_bytes"], most);
    largest = std::max(largest, most);

    std::vector<int64_t> alive = program["peak"]["tensors"], expected;
    int64_t sum = 0;
    for (const Json& tensor : report["tensors"]) {
      if (!is_needed(tensor, name, peak)) continue;
      expected.push_back(tensor["id"]);
      const bool counts_with_another = !tensor["in_place_of"].is_null() && tensor[name][0] == peak;
      if (!counts_with_another) sum += tensor["slot_bytes"].get<int64_t>();
    }
    EXPECT_EQ(sum, most) << name;
    EXPECT_TRUE(std::is_sorted(alive.begin(), alive.end(), [&](int64_t a, int64_t b) {
      return report["tensors"][static_cast<size_t>(a)]["slot_bytes"] >
             report["tensors"][static_cast<size_t>(b)]["slot_bytes"];
    }));
    std::sort(alive.begin(), alive.end());
    EXPECT_EQ(alive, expected) << name;
  }
  if (!is_packed(report)) return;
  EXPECT_EQ(report["zone"]["lower_bound"], largest);
  EXPECT_GE(report["zone"]["bytes"], largest);
}

/// A tensor that takes over bytes has them where the other one had them, which is then no longer needed.
void expect_takeovers(const Json& report) {
  for (const Json& tensor : report["tensors"]) {
    if (tensor["in_place_of"].is_null()) continue;
    const Json& other = report["tensors"][tensor["in_place_of"].get<size_t>()];
    EXPECT_EQ(tensor["offset"], other["offset"]) << tensor["name"];
    EXPECT_EQ(tensor["slot_bytes"], other["slot_bytes"]) << tensor["name"];
    EXPECT_EQ(tensor["train"][0], other["train"][1]) << tensor["name"];
  }
}

void expect_adds_up(const Json& report) {
  expect_keys(report);
  expect_layout(report);
  expect_lifetimes(report);
  expect_takeovers(report);
  int64_t parameters = 0;
  for (size_t i = 0; i < report["tensors"].size(); ++i) {
    const Json& tensor = report["tensors"][i];
    EXPECT_EQ(tensor["id"], i);
    EXPECT_NE(tensor["name"], "");
    EXPECT_LE(tensor["data_bytes"], tensor["slot_bytes"]);
    if (!tensor["region"].get<std::string>().starts_with("W_")) continue;
    int64_t elements = 1;
    for (const Json& dim : tensor["shape"]) elements *= dim.get<int64_t>();
    parameters += elements;
  }
  EXPECT_EQ(report["parameters"], parameters);
}

TEST(PlanJson, SmallRecipeAddsUp) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Json report = plan(folder, {"r.yaml"});
  expect_adds_up(report);
  EXPECT_EQ(report["device"], "cpu");
  EXPECT_EQ(report["layout"], "packed");
  EXPECT_EQ(report["model"], (Json{{"name", nullptr}, {"recipe", "small"}, {"batch", 16}}));
  EXPECT_EQ(report["outside"], (Json{{"pinned_host_bytes", 0}, {"overhead", nullptr}}));
  EXPECT_EQ(report["parameters"], 64 * 16 + 16 + 16 * 4 + 4);

  // 70 training samples in batches of 16 leave 6, 30 validation samples leave 14.
  const Json& variants = report["variants"];
  EXPECT_EQ(variants[0]["name"], "train_base");
  EXPECT_EQ(variants[0]["input"], Json({16, 8, 8, 1}));
  EXPECT_EQ(variants[0]["shared_with"], nullptr);
  EXPECT_LT(variants[0]["waste_bytes"], variants[1]["waste_bytes"]);
  EXPECT_TRUE(variants[0]["shapes"].empty());
  EXPECT_EQ(variants[1]["input"], Json({6, 8, 8, 1}));
  EXPECT_FALSE(variants[1]["shapes"].empty());
  EXPECT_EQ(variants[2]["name"], "train_lowres");
  EXPECT_EQ(variants[2]["shared_with"], "train_base");
  EXPECT_EQ(variants[3]["shared_with"], "train_last");
  EXPECT_EQ(variants[5]["input"], Json({14, 8, 8, 1}));
}

TEST(PlanJson, LinearLayoutAddsUp) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Json report = plan(folder, {"r.yaml", "memory.layout=linear"});
  expect_adds_up(report);
  EXPECT_EQ(report["layout"], "linear");
  EXPECT_EQ(report["variants"][0]["waste_bytes"], 0);
  EXPECT_GT(report["total_bytes"], plan(folder, {"r.yaml"})["total_bytes"]);
}

TEST(PlanJson, NeedsNeitherDataNorGpu) {
  const TempFolder folder;
  const std::string recipe = std::string(TR_SOURCE_DIR) + "/recipes/imagenet_resnet50.yaml";
  const Json report = plan(folder, {recipe, "--device", "cuda", "--precision", "bf16"});
  expect_adds_up(report);
  EXPECT_EQ(report["device"], "cuda");
  EXPECT_EQ(report["precision"], "bf16");
  EXPECT_EQ(report["parameters"], 25557032);
  EXPECT_EQ(report["model"], (Json{{"name", "resnet50"}, {"recipe", "imagenet_resnet50"}, {"batch", 256}}));
  EXPECT_EQ(report["outside"]["overhead"]["card"], "NVIDIA H200");
  EXPECT_EQ(keys(report["outside"]["overhead"]), (Keys{"card", "context_bytes", "steps_bytes", "source"}));
  // Two slots: 256 labels of four bytes, 256 images of bytes, 16 spare ones.
  EXPECT_EQ(report["outside"]["pinned_host_bytes"], 2 * (256 * 4 + 256 * 224 * 224 * 3 + 256));
}

TEST(PlanText, ShowsAllRegions) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome outcome = run_program(folder.path(), {"plan", "r.yaml"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* text : {"B_PREV_MEAN", "074  R_RESULT_ACCUMULATED", "off: needs has_ema",
                           "train_lowres_last", "recipe  ", "Peak of training: ", "Peak of evaluation: "})
    EXPECT_THAT(outcome.out, testing::HasSubstr(text));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("parameters +1108\n"));
}

}  // namespace
}  // namespace tr::test
