#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

constexpr const char* TWO_EPOCHS =
    R"({"epoch":1,"train_loss":1.5,"train_top1":0.5,"val_loss":1.0,"val_top1":0.75,"val_ema_loss":null}
{"epoch":2,"train_loss":1.0,"train_top1":0.625,"val_loss":0.5,"val_top1":1.0}
)";

TEST(Plots, DrawLossAndAccuracyIntoTheRun) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "first <run>");
  write_file(folder / "first <run>/metrics.jsonl", TWO_EPOCHS);
  const Outcome outcome = run_program(folder.path(), {"plots", "first <run>"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const std::string svg = read_file(folder / "first <run>/curves.svg");
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("first &lt;run>"));
  // The axis goes from 0.4 to 1.6, epochs from edge to edge.
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"5 4\" points=\"56.0,66.0 464.0,196.0\""));
  EXPECT_THAT(svg, HasSubstr("points=\"56.0,196.0 464.0,326.0\""));
  EXPECT_THAT(svg, testing::Not(HasSubstr("averaged weights"))) << "nothing has them";
}

TEST(Plots, CompareRunsOnStandardOutput) {
  const TempFolder folder;
  for (const char* run : {"a", "b"}) {
    std::filesystem::create_directory(folder / run);
    write_file(folder / run / "metrics.jsonl", TWO_EPOCHS);
  }
  const Outcome outcome = run_program(folder.path(), {"plots", "a/", "b/metrics.jsonl", "--out", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(">a</text>"));
  EXPECT_THAT(outcome.out, HasSubstr(">b</text>"));
}

TEST(Plots, BreakTheLineWhereALossIsNoNumber) {
  const TempFolder folder;
  write_file(folder / "metrics.jsonl",
             R"({"epoch":1,"train_loss":1.0}
{"epoch":2,"train_loss":null}
{"epoch":3,"train_loss":2.0}
)");
  const Outcome outcome = run_program(folder.path(), {"plots", "metrics.jsonl", "--out", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("<circle"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("<polyline")));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("nan")));
}

TEST(Plots, RefuseWhatIsNoRun) {
  const TempFolder folder;
  const auto refused = [&](const char* text, int exit_code, const char* reason) {
    if (text != nullptr) write_file(folder / "metrics.jsonl", text);
    const Outcome outcome = run_program(folder.path(), {"plots", "."});
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  };
  refused(nullptr, 1, "metrics.jsonl: cannot be read: No such file or directory");
  refused("", 1, "holds no epoch yet");
  refused("{\"epoch\":1}\n<html>\n", 1, "metrics.jsonl:2: expected an object with a number \"epoch\"");
  refused("{\"epoch\":\"one\"}\n", 1, "metrics.jsonl:1: expected");
}

}  // namespace
}  // namespace tr::test
