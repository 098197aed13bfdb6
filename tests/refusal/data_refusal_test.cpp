#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

/// A training that is refused: exit code, text, no run folder, nothing on standard output.
void expect_refused(const TempFolder& folder, const std::string& recipe, int exit_code,
                    const std::vector<std::string>& texts) {
  write_file(folder / "r.yaml", recipe);
  const Outcome outcome = run_program(folder.path(), {"train", "r.yaml", "--run-dir", "run", "--json"});
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_THAT(outcome.err, testing::StartsWith("renaissance: "));
  for (const std::string& text : texts) EXPECT_THAT(outcome.err, HasSubstr(text));
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(DataRefusal, GoodFilesTrain) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  write_file(folder / "r.yaml", idx_recipe(folder / "idx", 10));
  const Outcome outcome = run_program(folder.path(), {"train", "r.yaml", "--run-dir", "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(DataRefusal, MissingDataset) {
  const TempFolder folder;
  expect_refused(folder, idx_recipe(folder / "nowhere", 10), 1,
                 {(folder / "nowhere").string(), "train-images-idx3-ubyte"});
}

TEST(DataRefusal, TruncatedImages) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  std::filesystem::resize_file(folder / "idx/train-images-idx3-ubyte", 100);
  expect_refused(folder, idx_recipe(folder / "idx", 10), 1, {"train-images-idx3-ubyte"});
}

TEST(DataRefusal, TruncatedValidationLabels) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  std::filesystem::resize_file(folder / "idx/t10k-labels-idx1-ubyte", 9);
  expect_refused(folder, idx_recipe(folder / "idx", 10), 1, {"t10k-labels-idx1-ubyte"});
}

TEST(DataRefusal, HtmlInsteadOfGzip) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  std::filesystem::remove(folder / "idx/train-images-idx3-ubyte");
  write_file(folder / "idx/train-images-idx3-ubyte.gz", "<!DOCTYPE html><html>404</html>");
  expect_refused(folder, idx_recipe(folder / "idx", 10), 1, {"train-images-idx3-ubyte.gz"});
}

TEST(DataRefusal, LabelsBeyondTheClasses) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  expect_refused(folder, idx_recipe(folder / "idx", 5), 1, {"train-labels-idx1-ubyte", "5"});
}

TEST(DataRefusal, StatedCountDisagrees) {
  const TempFolder folder;
  write_small_idx(folder / "idx");
  write_file(folder / "r.yaml", idx_recipe(folder / "idx", 10));
  const Outcome outcome =
      run_program(folder.path(), {"train", "r.yaml", "data.train_samples=13", "--run-dir", "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("data.train_samples"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(DataRefusal, BatchLargerThanTheData) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  const Outcome outcome =
      run_program(folder.path(), {"train", "r.yaml", "train.batch_size=71", "--run-dir", "run"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("train.batch_size 71"));
  EXPECT_THAT(outcome.err, HasSubstr("use at most 70"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace tr::test
