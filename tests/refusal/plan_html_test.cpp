#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class PlanHtml : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { write_file(folder_ / name, text); }
  std::string read(const std::string& name) { return read_file(folder_ / name); }
  Outcome plan(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    return run_program(folder_.path(), arguments);
  }
  void SetUp() override { write("recipe.yaml", small_recipe()); }

  TempFolder folder_;
};

TEST_F(PlanHtml, WritesThePageInPlaceOfTheText) {
  write("plan.html", "what was there");
  const Outcome page = plan({"recipe.yaml", "--html", "plan.html"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_EQ(page.out, "");
  EXPECT_THAT(read("plan.html"), testing::StartsWith("<!doctype html>"));
  EXPECT_FALSE(fs::exists(folder_ / "plan.html.tmp"));

  const Outcome both = plan({"recipe.yaml", "--html", "again.html", "--json"});
  EXPECT_THAT(both.out, testing::StartsWith("{"));
  EXPECT_EQ(read("again.html"), read("plan.html"));
}

TEST_F(PlanHtml, ShowsTwoPlansOfDiff) {
  write("saved.json", plan({"recipe.yaml", "--json"}).out);
  const Outcome page =
      plan({"--diff", "saved.json", "recipe.yaml", "--b", "train.batch_size=3", "--html", "diff.html"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_EQ(page.out, "");
  EXPECT_THAT(read("diff.html"), HasSubstr("<title>Memory plan of saved.json and recipe.yaml"));
}

TEST_F(PlanHtml, AFileThatCannotBeWrittenIsSaidAndLeavesNothing) {
  const Outcome missing = plan({"recipe.yaml", "--html", "nowhere/plan.html"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(
      missing.err,
      "renaissance: nowhere/plan.html: cannot be written: No such file or directory; choose another file\n");
  fs::create_directory(folder_ / "taken");
  const Outcome taken = plan({"recipe.yaml", "--html", "taken"});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.err, HasSubstr("taken: cannot be written: Is a directory"));
  EXPECT_FALSE(fs::exists(folder_ / "taken.tmp"));
}

TEST_F(PlanHtml, AMistakeInTheRecipeLeavesTheFileAsItWas) {
  write("plan.html", "what was there");
  EXPECT_EQ(plan({"recipe.yaml", "precision=fp7", "--html", "plan.html"}).exit_code, 2);
  EXPECT_EQ(read("plan.html"), "what was there");
}

}  // namespace
}  // namespace tr::test
