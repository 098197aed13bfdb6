// `train --resume`, checkpoints and `inspect` as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"
#include "renaissance/train/checkpoint.h"

namespace tr::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::vector<json> metrics_of(const fs::path& run) {
  std::vector<json> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(json::parse(line));
    lines.back().erase("seconds");
    lines.back().erase("images_per_s");
  }
  return lines;
}

void expect_same_run(const fs::path& a, const fs::path& b) {
  EXPECT_EQ(read_file(a / "weights.safetensors"), read_file(b / "weights.safetensors"));
  EXPECT_EQ(metrics_of(a), metrics_of(b));
}

/// Two epochs of five steps.
std::string recipe(std::string_view more = "") {
  return small_recipe(cat("optimizer: {kind: adamw, learning_rate: 0.01}\n", more));
}

Outcome train(const TempFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"train", "r.yaml"});
  return run_program(folder.path(), std::move(arguments));
}

TEST(ResumeProgram, ThreeAndThreeEpochsAreSix) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"train.epochs=6", "--run-dir", "whole"}).exit_code, 0);
  ASSERT_EQ(train(folder, {"train.epochs=3", "--run-dir", "parts"}).exit_code, 0);
  const Outcome resumed = train(folder, {"--run-dir", "parts", "--resume", "train.epochs=6"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("resumed from parts/checkpoints/epoch-0003.safetensors: 3 epochs done"));
  EXPECT_THAT(resumed.out, HasSubstr("epoch 4/6"));
  expect_same_run(folder / "whole", folder / "parts");
  EXPECT_THAT(read_file(folder / "parts/recipe.yaml"), HasSubstr("epochs: 6"));
  // Once more changes nothing.
  const Outcome again = train(folder, {"--run-dir", "parts", "--resume", "train.epochs=6", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["epochs"], 6);
  EXPECT_FALSE(json::parse(again.out)["val_loss"].is_null());
  expect_same_run(folder / "whole", folder / "parts");
}

TEST(ResumeProgram, GoesOnFromAFileInAnotherFolder) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe("checkpoint: {keep_last: 9}\n"));
  ASSERT_EQ(train(folder, {"train.epochs=4", "--run-dir", "whole"}).exit_code, 0);
  const std::string file = "whole/checkpoints/epoch-0002.safetensors";
  const Outcome resumed = train(folder, {"train.epochs=4", "--run-dir", "branch", "--resume", file});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_file(folder / "whole/weights.safetensors"),
            read_file(folder / "branch/weights.safetensors"));
  EXPECT_EQ(metrics_of(folder / "branch").size(), 2u) << "those of its own epochs";
  // Another run in the folder is not lost.
  const Outcome refused = train(folder, {"train.epochs=4", "--run-dir", "branch", "--resume", file});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("holds a run already"));
  // Going back in its own folder leaves the later epochs behind.
  const Outcome back = train(folder, {"train.epochs=4", "--run-dir", "whole", "--resume", file});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(metrics_of(folder / "whole").size(), 4u);
}

TEST(ResumeProgram, NeedsNotWhatTheWeightsStartedFrom) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"train.epochs=1", "--run-dir", "first"}).exit_code, 0);
  const std::string init = "init=first/weights.safetensors";
  ASSERT_EQ(train(folder, {init, "train.epochs=4", "--run-dir", "whole"}).exit_code, 0);
  ASSERT_EQ(train(folder, {init, "train.epochs=2", "--run-dir", "parts"}).exit_code, 0);
  fs::remove_all(folder / "first");
  const Outcome resumed = run_program(
      folder.path(), {"train", "parts/recipe.yaml", "--resume", "train.epochs=4", "--run-dir", "parts"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  expect_same_run(folder / "whole", folder / "parts");
}

TEST(ResumeProgram, AfterCtrlCInTheMiddleOfAnEpoch) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  const std::string epochs = "train.epochs=25", batch = "train.batch_size=2";
  ASSERT_EQ(train(folder, {epochs, batch, "--run-dir", "whole", "--quiet"}).exit_code, 0);
  Program training(folder.path(), {"train", "r.yaml", epochs, batch, "--run-dir", "parts", "--quiet"});
  for (int i = 0; i < 2000 && !fs::exists(folder / "parts/checkpoints/epoch-0003.safetensors"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  training.send(SIGINT);
  const Outcome stopped = training.wait();
  if (stopped.exit_code == 130) {
    EXPECT_THAT(stopped.err, HasSubstr("--resume"));
    EXPECT_EQ(metrics_of(folder / "parts").back()["interrupted"], true);
  }
  ASSERT_EQ(train(folder, {epochs, batch, "--run-dir", "parts", "--quiet", "--resume"}).exit_code, 0);
  expect_same_run(folder / "whole", folder / "parts");
}

TEST(ResumeProgram, WithoutACheckpointItBegins) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  const Outcome begun = train(folder, {"--run-dir", "run", "--resume"});
  EXPECT_EQ(begun.exit_code, 0) << begun.err;
  EXPECT_THAT(begun.out, HasSubstr("no checkpoint in run/checkpoints; begins at the beginning"));
  // A finished training that left none is not begun again over its weights.
  ASSERT_EQ(train(folder, {"--run-dir", "none", "checkpoint.every_epochs=0"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder / "none/checkpoints"));
  const Outcome refused = train(folder, {"--run-dir", "none", "checkpoint.every_epochs=0", "--resume"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("left no checkpoint to go on from"));
}

TEST(ResumeProgram, DamagedCheckpointsArePassedOver) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"train.epochs=4", "--run-dir", "whole"}).exit_code, 0);
  ASSERT_EQ(train(folder, {"train.epochs=3", "--run-dir", "parts"}).exit_code, 0);
  const fs::path newest = folder / "parts/checkpoints/epoch-0003.safetensors";
  const std::string bytes = read_file(newest);
  write_file(newest, bytes.substr(0, bytes.size() - 10));
  const Outcome resumed = train(folder, {"train.epochs=4", "--run-dir", "parts", "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("passed over parts/checkpoints/epoch-0003.safetensors"));
  EXPECT_THAT(resumed.out, HasSubstr("epoch-0002.safetensors: 2 epochs done"));
  expect_same_run(folder / "whole", folder / "parts");
  for (const auto& entry : CheckpointFolder(folder / "parts/checkpoints").entries())
    write_file(entry.file, "no");
  const std::string weights = read_file(folder / "parts/weights.safetensors");
  const Outcome refused = train(folder, {"train.epochs=4", "--run-dir", "parts", "--resume"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("no checkpoint is whole"));
  EXPECT_EQ(read_file(folder / "parts/weights.safetensors"), weights);
}

TEST(ResumeProgram, MismatchesAreRefusedBeforeAnythingIsTouched) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"--run-dir", "run"}).exit_code, 0);
  const std::string metrics = read_file(folder / "run/metrics.jsonl");
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& text) {
    arguments.insert(arguments.end(), {"--run-dir", "run", "--resume"});
    const Outcome outcome = train(folder, arguments);
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(read_file(folder / "run/metrics.jsonl"), metrics);
  };
  refused({"optimizer.learning_rate=0.5"}, 2, "optimizer.learning_rate: 0.01 in the checkpoint, 0.5 now");
  refused({"ranks=2"}, 2, "ranks: 1 in the checkpoint, 2 now");
  refused({"train.epochs=1"}, 2, "give at least 2");
  refused({"--overwrite"}, 2, "give one of the two");
  const Outcome weights = train(folder, {"--run-dir", "other", "--resume", "run/weights.safetensors"});
  EXPECT_EQ(weights.exit_code, 1);
  EXPECT_THAT(weights.err, HasSubstr("not a checkpoint"));
  EXPECT_FALSE(fs::exists(folder / "other"));
}

/// Files that the process and those it starts write cannot grow beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &old_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(ResumeProgram, WhatCannotBeWrittenEndsTheTrainingAndKeepsTheLastCheckpoint) {
  const TempFolder folder;
  // 256 features: a checkpoint of more than 64 KiB; what else is written before it is smaller.
  write_file(folder / "r.yaml", recipe());
  const std::string wide = "model={layers: [flatten, {fc: 256}, relu, {fc: 4}]}";
  ASSERT_EQ(train(folder, {wide, "train.epochs=2", "--run-dir", "run"}).exit_code, 0);
  const fs::path last = folder / "run/checkpoints/epoch-0002.safetensors";
  const std::string before = read_file(last);
  ASSERT_GT(before.size(), 64u << 10);
  {
    const FileSizeLimit limit(64 << 10);
    const Outcome full = train(folder, {wide, "train.epochs=4", "--run-dir", "run", "--resume", "--quiet"});
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.err, HasSubstr("run/checkpoints/"));
    EXPECT_THAT(full.err, HasSubstr("cannot write: File too large"));
    EXPECT_THAT(full.err, HasSubstr("the last checkpoint is whole: run/checkpoints/epoch-0002.safetensors"));
  }
  EXPECT_EQ(read_file(last), before);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "run/checkpoints"))
    EXPECT_NE(entry.path().extension(), ".tmp");
  ASSERT_EQ(train(folder, {wide, "train.epochs=4", "--run-dir", "run", "--resume"}).exit_code, 0);
  ASSERT_EQ(train(folder, {wide, "train.epochs=4", "--run-dir", "whole"}).exit_code, 0);
  expect_same_run(folder / "whole", folder / "run");
}

TEST(ResumeProgram, OverwriteLeavesNoOldCheckpoint) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"train.epochs=3", "--run-dir", "run"}).exit_code, 0);
  ASSERT_EQ(train(folder, {"train.epochs=1", "--run-dir", "run", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(CheckpointFolder(folder / "run/checkpoints").entries().size(), 1u);
}

TEST(Inspect, SaysWhatIsInside) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"--run-dir", "run"}).exit_code, 0);
  const std::string file = "run/checkpoints/epoch-0002.safetensors";
  const Outcome text = run_program(folder.path(), {"inspect", file, "--tensors"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"checkpoint", "recipe          small", "epochs          2 of 2",
                           "steps           10", "parameters      1108", "first_moment.1.weight", "best "})
    EXPECT_THAT(text.out, HasSubstr(part));
  const json line = json::parse(run_program(folder.path(), {"inspect", file, "--json"}).out);
  EXPECT_EQ(line["kind"], "checkpoint");
  EXPECT_EQ(line["epochs"], 2);
  EXPECT_EQ(line["parameters"], 64 * 16 + 16 + 16 * 4 + 4);
  EXPECT_EQ(line["val"]["loss"], metrics_of(folder / "run").back()["val_loss"]);
  EXPECT_EQ(line["bytes"], fs::file_size(folder / file));
  EXPECT_FALSE(line["tensors"].empty());

  const json weights =
      json::parse(run_program(folder.path(), {"inspect", "run/weights.safetensors", "--json"}).out);
  EXPECT_EQ(weights["kind"], "weights");
  EXPECT_EQ(weights["parameters"], line["parameters"]);
  EXPECT_EQ(weights["tensors"].size(), 4u);

  std::string bytes = read_file(folder / file);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
  write_file(folder / "bad.safetensors", bytes);
  const Outcome bad = run_program(folder.path(), {"inspect", "bad.safetensors"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, HasSubstr("bad.safetensors: the checkpoint is damaged"));
  EXPECT_EQ(bad.out, "");
}

TEST(Inspect, EvalTakesACheckpoint) {
  const TempFolder folder;
  write_file(folder / "r.yaml", recipe());
  ASSERT_EQ(train(folder, {"--run-dir", "run"}).exit_code, 0);
  const Outcome outcome = run_program(
      folder.path(), {"eval", "r.yaml", "--weights", "run/checkpoints/epoch-0002.safetensors", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["loss"], metrics_of(folder / "run").back()["val_loss"]);
  const Outcome none = run_program(
      folder.path(),
      {"eval", "r.yaml", "--weights", "run/checkpoints/epoch-0002.safetensors", "--ema", "--json"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("ema.decay 0"));
}

}  // namespace
}  // namespace tr::test
