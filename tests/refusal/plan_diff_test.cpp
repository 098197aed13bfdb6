#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::string output(const TempFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  const Outcome outcome = run_program(folder.path(), arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

TEST(PlanDiff, OfARecipeAgainstItselfIsEmpty) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  EXPECT_THAT(output(folder, {"--diff", "r.yaml", "r.yaml"}),
              testing::ContainsRegex("Tensors: 0 only in B, 0 only in A, 0 of other bytes, [0-9]+ alike\n$"));
  const Json json = Json::parse(output(folder, {"--diff", "r.yaml", "r.yaml", "--json"}));
  EXPECT_EQ(json["total_bytes"]["difference"], 0);
  EXPECT_TRUE(json["tensors"]["largest"].empty());
}

TEST(PlanDiff, OfTwoBatchesInAnyForm) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe("optimizer: {kind: adam}\n"));
  const std::string saved = output(folder, {"r.yaml", "train.batch_size=8", "--json"});
  write_file(folder / "saved.json", saved);
  write_file(folder / "no_suffix", saved);
  const int64_t a_bytes = Json::parse(saved)["total_bytes"],
                b_bytes =
                    Json::parse(output(folder, {"r.yaml", "train.batch_size=32", "--json"}))["total_bytes"];
  const std::vector<std::vector<std::string>> forms{
      {"--diff", "r.yaml", "r.yaml", "--a", "train.batch_size=8", "--b", "train.batch_size=32"},
      {"--diff", "saved.json", "r.yaml", "--b", "train.batch_size=32"},
      {"--diff", "no_suffix", "r.yaml", "train.batch_size=32"},
      {"train.batch_size=32", "--diff", "saved.json", "r.yaml"},
      {"--diff", "r.yaml", "r.yaml", "train.batch_size=8", "--b", "train.batch_size=32"}};
  for (std::vector<std::string> form : forms) {
    form.push_back("--json");
    const Json json = Json::parse(output(folder, form));
    EXPECT_EQ(json["total_bytes"], (Json{{"a", a_bytes}, {"b", b_bytes}, {"difference", b_bytes - a_bytes}}));
    EXPECT_EQ(json["tensors"]["appeared"], 0);
    EXPECT_GT(json["tensors"]["changed"], 0);
    EXPECT_EQ(json["persistent_bytes"]["difference"].get<int64_t>() +
                  json["zone_bytes"]["difference"].get<int64_t>(),
              b_bytes - a_bytes);
  }
}

TEST(PlanDiff, OverridesReachBothRecipesAndAreShown) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const std::string text = output(
      folder, {"--diff", "r.yaml", "r.yaml", "--device", "cuda", "--b", "precision=bf16", "--b", "ranks=2"});
  EXPECT_THAT(text,
              testing::StartsWith("A: r.yaml device=cuda\nB: r.yaml device=cuda precision=bf16 ranks=2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("A_FC_WEIGHT +0 +[0-9]+ +\\+[0-9]+"));
  EXPECT_THAT(text, testing::ContainsRegex("Tensors: [1-9][0-9]* only in B, 0 only in A"));
  EXPECT_THAT(text, HasSubstr("peak of training: "));
}

TEST(PlanDiff, RefusalsSayWhatToDo) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const std::string saved = output(folder, {"r.yaml", "--json"});
  write_file(folder / "a.json", saved);
  write_file(folder / "cut.json", saved.substr(0, saved.size() / 2));
  write_file(folder / "other.json", "{\"numbers\": [1, 2]}");
  write_file(folder / "empty.json", "");
  Json newer = Json::parse(saved);
  newer["schema"] = 2;
  write_file(folder / "newer.json", newer.dump());
  const auto refuse = [&](int exit_code, std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), {"plan", "--diff"});
    const Outcome outcome = run_program(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  };
  refuse(2, {"a.json", "cut.json"}, ", or was cut off; save one with");
  refuse(2, {"empty.json", "a.json"}, "plan 'empty.json': is not JSON");
  refuse(2, {"other.json", "a.json"}, "plan 'other.json': has no 'schema', so it is not a plan");
  refuse(2, {"a.json", "newer.json"}, "plan 'newer.json': has schema 2, this program reads up to 1");
  refuse(2, {"a.json", "r.yaml", "r.yaml"}, "'r.yaml' is a third file");
  refuse(2, {"a.json", "r.yaml", "--a", "ranks=2"}, "plan 'a.json': is saved, so 'ranks=2' cannot change it");
  refuse(2, {"a.json", "a.json", "ranks=2"}, "'ranks=2' changes neither, as both plans are saved");
  refuse(2, {"-", "-"}, "standard input can be one of the two only");
  refuse(2, {"r.yaml", "r.yaml", "ranke=2"}, "ranks");
  refuse(1, {"a.json", "absent.json"}, "absent.json: cannot be read");
  refuse(1, {folder.path().string(), "a.json"}, "cannot be read");
}

}  // namespace
}  // namespace tr::test
