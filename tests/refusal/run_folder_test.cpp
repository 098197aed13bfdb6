#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

TEST(RunFolder, IsNotWrittenOver) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml"}).exit_code, 0);
  const std::string weights = read_file(folder / "runs/small/weights.safetensors");

  const Outcome refused = run_program(folder.path(), {"train", "r.yaml", "train.seed=1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("choose another --run-dir, or pass --resume to go on with it or --overwrite"));
  EXPECT_EQ(read_file(folder / "runs/small/weights.safetensors"), weights);

  const Outcome replaced = run_program(folder.path(), {"train", "r.yaml", "train.seed=1", "--overwrite"});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_NE(read_file(folder / "runs/small/weights.safetensors"), weights);
}

TEST(RunFolder, EventFilesOfOthersAreNotRemoved) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  std::filesystem::create_directory(folder / "x");
  write_file(folder / "x/events.out.tfevents.1.mine.2", "theirs");
  const Outcome refused = run_program(folder.path(), {"train", "r.yaml", "--run-dir", "x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("holds a run already (events.out.tfevents.1.mine.2)"));
  EXPECT_EQ(read_file(folder / "x/events.out.tfevents.1.mine.2"), "theirs");
}

TEST(RunFolder, HoldsOneTrainingAtATime) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  Program first(folder.path(), {"train", "r.yaml", "train.epochs=100000", "--quiet"});
  while (!std::filesystem::exists(folder / "runs/small/metrics.jsonl")) usleep(1000);
  for (const char* how : {"--overwrite", "--resume"}) {
    const Outcome second = run_program(folder.path(), {"train", "r.yaml", how});
    EXPECT_EQ(second.exit_code, 1) << how;
    EXPECT_THAT(second.err, HasSubstr("runs/small: another training writes here")) << how;
  }
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 130);
}

TEST(RunFolder, WhatResumeNamesIsReadFirst) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml"}).exit_code, 0);
  const Outcome missing = run_program(folder.path(), {"train", "r.yaml", "--resume", "nosuch"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("nosuch: "));
  const Outcome weights =
      run_program(folder.path(), {"train", "r.yaml", "--resume", "runs/small/weights.safetensors"});
  EXPECT_EQ(weights.exit_code, 1);
  EXPECT_THAT(weights.err, HasSubstr("weights.safetensors"));
  EXPECT_THAT(weights.err, HasSubstr("not a checkpoint"));
}

TEST(RunFolder, ARefusedRecipeLeavesAnOldRunAlone) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml"}).exit_code, 0);
  const std::string weights = read_file(folder / "runs/small/weights.safetensors");
  EXPECT_EQ(run_program(folder.path(), {"train", "r.yaml", "data.classes=5", "--overwrite"}).exit_code, 2);
  EXPECT_EQ(read_file(folder / "runs/small/weights.safetensors"), weights);
}

TEST(RunFolder, BelowAFile) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  write_file(folder / "file", "not a folder");
  const Outcome outcome = run_program(folder.path(), {"train", "r.yaml", "--run-dir", "file/run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("file is not a folder"));
  EXPECT_EQ(read_file(folder / "file"), "not a folder");
}

TEST(RunFolder, ADeviceThatIsFullIsReported) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_symlink("/dev/full", folder / "run/other");
  const Outcome outcome = run_program(folder.path(), {"train", "r.yaml", "--run-dir", "run/other"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("run/other"));
}

TEST(RunFolder, ComesFromTheRecipeUnlessGiven) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe("run_dir: out/of recipe\n"));
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml"}).exit_code, 0);
  for (const char* name : {"recipe.yaml", "plan.txt", "metrics.jsonl", "weights.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder / "out/of recipe" / name)) << name;
  ASSERT_EQ(run_program(folder.path(), {"train", "r.yaml", "--run-dir", "given"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "given/weights.safetensors"));
}

}  // namespace
}  // namespace tr::test
