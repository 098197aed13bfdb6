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

/// Waits until the metrics file of a running training has at least `bytes` bytes: 0 for a training that is
/// about to start, 1 for a finished epoch.
void wait_for_metrics(const std::filesystem::path& run, uintmax_t bytes) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  std::error_code code;
  while (Clock::now() < deadline) {
    const auto found = std::filesystem::file_size(run / "metrics.jsonl", code);
    if (!code && found >= bytes) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL() << "no metrics within a minute";
}

/// Steps of some tenths of a second.
std::string slow_recipe() {
  return "name: slow\n"
         "threads: 1\n"
         "data: {source: synthetic, classes: 4, train_samples: 1024, val_samples: 4, channels: 3, height: "
         "32, "
         "width: 32}\n"
         "model: {layers: [{conv: [32, 3, 1, 1]}, {conv: [64, 3, 1, 1]}, gap, flatten, {fc: 4}]}\n"
         "train: {epochs: 1000, batch_size: 128}\n";
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

TEST(TrainEval, AveragedWeightsAreReportedAndSaved) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome trained = run_program(
      folder.path(), {"train", "r.yaml", "ema=0.5", "train.accumulate=2", "--json", "--run-dir", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("  ema loss "));
  const json result = json::parse(trained.out), epoch = last_line(folder / "run/metrics.jsonl");
  EXPECT_NE(result["val_ema_loss"], result["val_loss"]);
  for (const char* key : {"val_ema_loss", "val_ema_top1", "val_ema_top5"})
    EXPECT_EQ(epoch[key], result[key]) << key;
  const Outcome evaluated = run_program(
      folder.path(), {"eval", "run/recipe.yaml", "--weights", "run/weights_ema.safetensors", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["loss"], result["val_ema_loss"]);
  const Outcome refused = run_program(folder.path(), {"train", "r.yaml", "ema.switch_epochs=1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'ema.decay' is 0: there is no average to go on from"));
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
  const Outcome outcome = run_program(folder.path(), {"eval", "r.yaml", "model={layers: [flatten, {fc: 4}]}",
                                                      "--weights", "run/weights.safetensors"});
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
    Program training(folder.path(),
                     {"train", "r.yaml", "train.epochs=1000000", "--json", "--run-dir", "run"});
    wait_for_metrics(folder / "run", 1);
    training.send(number);
    const Outcome outcome = training.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["interrupted"], true);
    EXPECT_GE(result["epochs"], 1);
    // The epoch under way is the last line.
    const json last = last_line(folder / "run/metrics.jsonl");
    EXPECT_EQ(last["epoch"], result["epochs"].get<int>() + 1);
    EXPECT_EQ(last["interrupted"], true);
    EXPECT_TRUE(last["val_loss"].is_null());
    const Outcome evaluated = run_program(
        folder.path(), {"eval", "run/recipe.yaml", "--weights", "run/weights.safetensors", "--json"});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    EXPECT_EQ(json::parse(evaluated.out)["samples"], 30);
  }
}

TEST(Interrupt, InTheFirstEpochThereIsNothingValidated) {
  const TempFolder folder;
  write_file(folder / "r.yaml", slow_recipe());
  Program training(folder.path(), {"train", "r.yaml", "--json", "--quiet", "--run-dir", "run"});
  wait_for_metrics(folder / "run", 0);
  training.send(SIGINT);
  const Outcome outcome = training.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped by a signal after 0 of 1000 epochs"));
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["epochs"], 0);
  EXPECT_TRUE(result["val_top1"].is_null());
  EXPECT_TRUE(std::filesystem::exists(folder / "run/weights.safetensors"));
}

TEST(Interrupt, TheSecondSignalEndsAtOnce) {
  const TempFolder folder;
  write_file(folder / "r.yaml", slow_recipe());
  Program training(folder.path(), {"train", "r.yaml", "--json", "--run-dir", "run"});
  wait_for_metrics(folder / "run", 0);
  training.send(SIGINT);
  training.send(SIGTERM);
  const Outcome outcome = training.wait();
  // Whichever is delivered last ends it.
  EXPECT_THAT(outcome.exit_code, testing::AnyOf(128 + SIGINT, 128 + SIGTERM));
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(std::filesystem::exists(folder / "run/weights.safetensors"));
}

}  // namespace
}  // namespace tr::test
