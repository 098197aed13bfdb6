#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2);
}

TEST_F(PlanHtml, ReplacesOneFileAndNoOther) {
  write("plan.html", "what was there");
  write("plan.html.tmp", "somebody's");
  fs::permissions(folder_ / "plan.html", fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(plan({"recipe.yaml", "--html", "plan.html"}).exit_code, 0);
  EXPECT_THAT(read("plan.html"), testing::StartsWith("<!doctype html>"));
  EXPECT_EQ(fs::status(folder_ / "plan.html").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(read("plan.html.tmp"), "somebody's");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 3);
}

TEST_F(PlanHtml, FollowsSymbolicLinks) {
  fs::create_directory(folder_ / "pages");
  write("pages/old.html", "what was there");
  for (const std::string name : {"old.html", "new.html"}) {
    fs::create_symlink("pages/" + name, folder_ / name);
    EXPECT_EQ(plan({"recipe.yaml", "--html", name}).exit_code, 0);
    EXPECT_TRUE(fs::is_symlink(folder_ / name));
    EXPECT_FALSE(fs::is_symlink(folder_ / "pages" / name));
    EXPECT_THAT(read("pages/" + name), testing::StartsWith("<!doctype html>"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "pages"), {}), 2);
}

TEST_F(PlanHtml, ToStandardOutput) {
  const Outcome page = plan({"recipe.yaml", "--html", "-"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, testing::StartsWith("<!doctype html>"));
  EXPECT_FALSE(fs::exists(folder_ / "-"));
  const Outcome both = plan({"recipe.yaml", "--html", "-", "--json"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--html is '-' and --json is given"));
  EXPECT_EQ(both.out, "");
  // The file that standard output goes to, under another name, is not exchanged for a new one.
  const Outcome named = plan({"recipe.yaml", "--html", "/proc/self/fd/1", "--json"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, testing::StartsWith(page.out + "{"));
  EXPECT_THAT(named.out, testing::EndsWith("}\n"));
}

TEST_F(PlanHtml, RefusesANewerPlan) {
  std::string newer = plan({"recipe.yaml", "--json"}).out;
  const std::string schema = "\"schema\":1";
  newer.replace(newer.find(schema), schema.size(), "\"schema\":2");
  write("newer.json", newer);
  const Outcome page = plan({"--diff", "newer.json", "recipe.yaml", "--html", "diff.html"});
  EXPECT_EQ(page.exit_code, 2);
  EXPECT_THAT(page.err, HasSubstr("plan 'newer.json': has schema 2, this program reads up to 1"));
  EXPECT_FALSE(fs::exists(folder_ / "diff.html"));
}

TEST_F(PlanHtml, AMistakeInTheRecipeLeavesTheFileAsItWas) {
  write("plan.html", "what was there");
  EXPECT_EQ(plan({"recipe.yaml", "precision=fp7", "--html", "plan.html"}).exit_code, 2);
  EXPECT_EQ(read("plan.html"), "what was there");
}

}  // namespace
}  // namespace tr::test
