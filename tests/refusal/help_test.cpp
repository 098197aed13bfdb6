#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

TEST(Help, EveryVerbHasItWithExamples) {
  const TempFolder folder;
  for (const std::string verb :
       {"train", "eval", "predict", "export", "plan", "fit", "models", "bench", "pack", "inspect", "plots"}) {
    const Outcome outcome = run_program(folder.path(), {verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << verb;
    EXPECT_THAT(outcome.out, HasSubstr("Examples:")) << verb;
    EXPECT_THAT(outcome.out, HasSubstr("renaissance " + verb)) << verb;
    EXPECT_EQ(outcome.err, "") << verb;
  }
}

TEST(Help, ProgramAndVersion) {
  const TempFolder folder;
  const Outcome help = run_program(folder.path(), {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* verb :
       {"train", "eval", "predict", "export", "plan", "fit", "models", "bench", "pack", "inspect", "plots"})
    EXPECT_THAT(help.out, HasSubstr(verb));
  const Outcome version = run_program(folder.path(), {"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::MatchesRegex("renaissance [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Help, UsageErrorsExitWith2) {
  const TempFolder folder;
  write_file(folder / "r.yaml", small_recipe());
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"teach"},
                                             {"fit", "r.yaml"},
                                             {"plan"},
                                             {"plan", "--diff", "r.yaml"},
                                             {"plan", "r.yaml", "--a", "ranks=1"},
                                             {"train"},
                                             {"train", "r.yaml", "--fast"},
                                             {"eval", "r.yaml"},
                                             {"plan", "r.yaml", "--device", "abacus"},
                                             {"train", "r.yaml", "epochs"}}) {
    const Outcome outcome = run_program(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, testing::StartsWith("renaissance: ")) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "") << testing::PrintToString(arguments);
  }
}

TEST(Help, UnknownVerbNamesTheNearest) {
  const TempFolder folder;
  const Outcome outcome = run_program(folder.path(), {"trian", "r.yaml"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'train'?"));
}

TEST(Help, ModelsAreListed) {
  const TempFolder folder;
  const Outcome outcome = run_program(folder.path(), {"models"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, testing::ContainsRegex("resnet50 +25557032 +1000 "));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("vgg16_bn +138365992 +1000 "));
}

}  // namespace
}  // namespace tr::test
