#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json json_of(const TempFolder& folder, std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Outcome outcome = run_program(folder.path(), arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

/// As `plan` says it.
int64_t planned_bytes(const TempFolder& folder, const std::string& recipe, int64_t batch,
                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"plan", recipe, cat("train.batch_size=", batch)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return json_of(folder, arguments)["total_bytes"];
}

TEST(Fit, TheAnswerIsTheBorderThatPlanSees) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const int64_t memory_bytes = planned_bytes(folder, "r.yaml", 21);
  const Json fit = json_of(folder, {"fit", "r.yaml", "--memory", cat(memory_bytes)});
  std::vector<std::string> keys;
  for (const auto& [key, value] : fit.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"batch_size", "memory_bytes", "needed_bytes", "left_bytes",
                                            "arena_bytes", "arenas", "overhead_bytes", "pinned_host_bytes",
                                            "granularity", "next_batch_size", "next_needed_bytes",
                                            "next_refusal", "plans"}));
  const int64_t batch = fit["batch_size"];
  EXPECT_GE(batch, 21);
  EXPECT_EQ(fit["needed_bytes"], planned_bytes(folder, "r.yaml", batch));
  EXPECT_EQ(fit["left_bytes"], memory_bytes - fit["needed_bytes"].get<int64_t>());
  EXPECT_GE(fit["left_bytes"], 0);
  EXPECT_EQ(fit["next_batch_size"], batch + 1);
  EXPECT_EQ(fit["next_needed_bytes"], planned_bytes(folder, "r.yaml", batch + 1));
  EXPECT_GT(fit["next_needed_bytes"], memory_bytes);
  EXPECT_EQ(fit["overhead_bytes"], nullptr);
  EXPECT_EQ(fit["next_refusal"], nullptr);
}

TEST(Fit, SaysThatTheNextBatchCannotRun) {
  const TempFolder folder;
  write_file(
      folder / "r.yaml",
      "threads: 1\n"
      "data: {source: synthetic, classes: 4, train_samples: 101, val_samples: 30, channels: 1, height: 8, "
      "width: 8}\n"
      "model: {layers: [flatten, {fc: 16}, bn, {fc: 4}]}\n");
  // Batches of 50 and 100 leave one sample over.
  const std::string memory_bytes = cat(planned_bytes(folder, "r.yaml", 49));
  const Json fit = json_of(folder, {"fit", "r.yaml", "--memory", memory_bytes});
  EXPECT_EQ(fit["batch_size"], 49);
  EXPECT_EQ(fit["next_batch_size"], 50);
  EXPECT_EQ(fit["next_needed_bytes"], nullptr);
  EXPECT_THAT(fit["next_refusal"].get<std::string>(), HasSubstr("batch norm over 1 value per channel"));
  const Outcome text = run_program(folder.path(), {"fit", "r.yaml", "--memory", memory_bytes});
  EXPECT_THAT(text.out,
              testing::ContainsRegex("next +50 cannot run for its shape: .*batch norm over 1 value"));
}

TEST(Fit, OfACardWithoutOne) {
  const TempFolder folder;
  const std::string recipe = std::string(TR_SOURCE_DIR) + "/recipes/imagenet_resnet50.yaml";
  const std::vector<std::string> target{"--device", "cuda", "--precision", "bf16"};
  const Json fit = json_of(folder, {"fit", recipe, "--memory", "24GiB", "--granularity", "8", "--device",
                                    "cuda", "--precision", "bf16"});
  const int64_t batch = fit["batch_size"];
  EXPECT_EQ(batch % 8, 0);
  EXPECT_EQ(fit["memory_bytes"], 24ll << 30);
  EXPECT_EQ(fit["needed_bytes"],
            planned_bytes(folder, recipe, batch, target) + fit["overhead_bytes"].get<int64_t>());
  EXPECT_EQ(fit["next_batch_size"], batch + 8);
  EXPECT_EQ(fit["next_needed_bytes"],
            planned_bytes(folder, recipe, batch + 8, target) + fit["overhead_bytes"].get<int64_t>());
  EXPECT_LE(fit["needed_bytes"], 24ll << 30);
  EXPECT_GT(fit["next_needed_bytes"], 24ll << 30);
}

TEST(Fit, TextSaysWhatIsKnown) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome all = run_program(folder.path(), {"fit", "r.yaml", "--memory", "1GB"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, testing::ContainsRegex("train.batch_size +70\n"));
  EXPECT_THAT(all.out, testing::ContainsRegex("beside it +unknown, not counted\n"));
  EXPECT_THAT(all.out, HasSubstr("the data have too few samples for a larger batch"));
  const Outcome card = run_program(folder.path(), {"fit", "r.yaml", "--memory", "1GiB", "--device", "cuda"});
  EXPECT_THAT(card.out, testing::ContainsRegex("beside it +.* \\([0-9]+\\), as measured on NVIDIA H200\n"));
  EXPECT_THAT(card.out, HasSubstr("pinned host memory"));
}

TEST(Fit, RefusalsSayWhatToDo) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const auto refuse = [&](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), {"fit", "r.yaml"});
    const Outcome outcome = run_program(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  };
  const int64_t least = planned_bytes(folder, "r.yaml", 1);
  refuse({"--memory", cat(least - 1)}, cat("a batch of 1 needs ", least, " bytes, there are ", least - 1));
  for (const char* nonsense : {"much", "24", "24Gib", "1.5GiB", "0"})
    refuse({"--memory", nonsense},
           std::string(nonsense) == "24" ? "a batch of 1 needs" : "is not a size; write 24GiB");
  refuse({"--memory", "1GB", "--granularity", "0"},
         "--granularity: is '0'; expected an integer from 1 to 9223372036854775807");
  for (const char* nonsense : {"10000000000000000000", "99999999999999999999", "0x10", "8k", "-8"})
    refuse({"--memory", "1GB", "--granularity", nonsense},
           cat("--granularity: is '", nonsense, "'; expected an integer"));
  refuse({"--memory", "1GB", "--granularity", "71"}, "than the 70 of the data; use at most 70");
  refuse({"--memory", "1GB", "--granularity", "9223372036854775807", "ranks=4"},
         "than the 70 of the data; use at most 17");
  refuse({"--memory", "1GB", "train.batch_sise=3"}, "train.batch_size");
  refuse({}, "--memory is required");
}

}  // namespace
}  // namespace tr::test
