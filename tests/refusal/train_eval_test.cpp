#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"

namespace tr::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json last_line(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  return json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

/// Waits until a running training has finished an epoch.
void wait_for_an_epoch(const std::filesystem::path& run) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  std::error_code code;
  while (Clock::now() < deadline) {
    const auto bytes = std::filesystem::file_size(run / "metrics.jsonl", code);
    if (!code && bytes > 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "no epoch within a minute";
}

TEST(TrainEval, JsonIsOneLineAndEvalReproducesIt) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome trained = run_program(folder.path(), {"train", "r.yaml", "--json", "--run-dir", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(std::count(trained.out.begin(), trained.out.end(), '\n'), 1);
  EXPECT_THAT(trained.err, HasSubstr("epoch 2/2"));
  const json result = json::parse(trained.out);
  EXPECT_EQ(result.size(), 8u);
  EXPECT_GT(result["val_loss"], 0.0);
  EXPECT_GE(result["val_top1"], 0.0);
  EXPECT_LE(result["val_top1"], 1.0);
  EXPECT_GE(result["val_top5"], result["val_top1"]);
  EXPECT_GT(result["seconds"], 0.0);
  EXPECT_GT(result["images_per_s"], 0.0);
  EXPECT_EQ(result["epochs"], 2);
  EXPECT_EQ(result["run_dir"], "run");
  EXPECT_EQ(result["interrupted"], false);
  EXPECT_EQ(last_line(folder / "run/metrics.jsonl")["val_loss"], result["val_loss"]);

  const Outcome evaluated = run_program(
      folder.path(), {"eval", "run/recipe.yaml", "--weights", "run/weights.safetensors", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const json metrics = json::parse(evaluated.out);
  EXPECT_EQ(metrics["loss"], result["val_loss"]);
  EXPECT_EQ(metrics["top1"], result["val_top1"]);
  EXPECT_EQ(metrics["top5"], result["val_top5"]);
  EXPECT_EQ(metrics["samples"], 30);
}

TEST(TrainEval, PipedProgressIsPlainLines) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome outcome = run_program(folder.path(), {"train", "r.yaml"});
  ASSERT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("epoch 1/2 "));
  EXPECT_THAT(outcome.out, HasSubstr("epoch 2/2 "));
  EXPECT_EQ(outcome.out.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(outcome.err, "");
  const Outcome quiet = run_program(folder.path(), {"train", "r.yaml", "--quiet", "--overwrite"});
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST(TrainEval, WeightsOfAnotherModelAreRefused) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml", "--run-dir", "run"}).exit_code, 0);
  const Outcome outcome =
      run_program(folder.path(), {"eval", "r.yaml", "model={layers: [flatten, {fc: 4}]}", "--weights",
                                  "run/weights.safetensors"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weights do not fit the model"));
  const Outcome missing = run_program(folder.path(), {"eval", "r.yaml", "--weights", "none.safetensors"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.safetensors"));
}

TEST(Interrupt, SavesWhatIsThereAndExits130) {
  for (const int number : {SIGINT, SIGTERM}) {
    const TempFolder folder;
    write_file(folder / "r.yaml", small_recipe());
    Program training(folder.path(), {"train", "r.yaml", "train.epochs=1000000", "--json", "--run-dir", "run"});
    wait_for_an_epoch(folder / "run");
    training.send(number);
    const Outcome outcome = training.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["interrupted"], true);
    EXPECT_GE(result["epochs"], 1);
    EXPECT_EQ(last_line(folder / "run/metrics.jsonl")["epoch"], result["epochs"]);
    const Outcome evaluated = run_program(
        folder.path(), {"eval", "run/recipe.yaml", "--weights", "run/weights.safetensors", "--json"});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    EXPECT_EQ(json::parse(evaluated.out)["samples"], 30);
  }
}

}  // namespace
}  // namespace tr::test
