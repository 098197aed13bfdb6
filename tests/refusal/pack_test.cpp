#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Alive together: a b, b c, c d. The lower bound is 7 + 2.
constexpr const char* FOUR = "id,lower,upper,size\na,0,2,3\nb,1,3,4\nc,2,4,5\nd,3,5,2\n";

Outcome pack_text(std::string_view text, std::vector<std::string> options = {}) {
  const TempFolder folder;
  write_file(folder / "t.csv", text);
  options.insert(options.begin(), {"pack", "t.csv"});
  return run_program(folder.path(), options);
}

TEST(Pack, JsonHoldsWhatTheDocumentSays) {
  const Outcome outcome = pack_text(FOUR, {"--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  std::vector<std::string> keys;
  for (const auto& entry : json.items()) keys.push_back(entry.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"tensors", "lower_bound", "bytes", "seconds", "fits", "proven"}));
  EXPECT_EQ(json["tensors"], 4);
  EXPECT_EQ(json["lower_bound"], 9);
  EXPECT_EQ(json["bytes"], 9);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["proven"], true);
}

TEST(Pack, TextSummary) {
  const Outcome outcome = pack_text(FOUR, {"--capacity", "9"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("lower bound +9 bytes"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("capacity +9 bytes: fits"));
}

TEST(Pack, OutputCanBeReadAgain) {
  const TempFolder folder;
  write_file(folder / "t.csv", FOUR);
  EXPECT_EQ(run_program(folder.path(), {"pack", "t.csv", "--alignment", "4", "--output", "o.csv"}).exit_code,
            0);
  const std::string written = read_file(folder / "o.csv");
  EXPECT_THAT(written, testing::StartsWith("id,lower,upper,size,offset\na,0,2,3,"));
  const Outcome again = run_program(folder.path(), {"pack", "o.csv", "--json"});
  EXPECT_EQ(Json::parse(again.out)["bytes"], 9);
}

TEST(Pack, ColumnsInAnyOrderBlanksAndCarriageReturns) {
  const Outcome outcome =
      pack_text("size, note ,upper,id,lower\r\n3,x,2,a,0\r\n\r\n4,y,3,b,1\r\n", {"--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["bytes"], 7);
}

TEST(Pack, NoTensorsNeedNoBytes) {
  const Outcome outcome = pack_text("id,lower,upper,size\n", {"--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Json::parse(outcome.out)["bytes"], 0);
}

TEST(Pack, CapacityThatIsExceededExitsWith1) {
  const Outcome outcome = pack_text(FOUR, {"--capacity", "8", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(Json::parse(outcome.out)["fits"], false);
  EXPECT_THAT(pack_text(FOUR, {"--capacity", "8"}).out, HasSubstr("nothing fits it"));
}

TEST(PackRefusal, FilesNameTheLine) {
  struct Case {
    const char *text, *expected;
  };
  for (const auto& [text, expected] : {
           Case{"", "t.csv: is empty"},
           Case{"id,lower,size\na,0,1\n", "t.csv:1: the header has 0 columns 'upper'"},
           Case{"id,lower,upper,size,id\n", "t.csv:1: the header has 2 columns 'id'"},
           Case{"id,lower,upper,size\na,0,1,2\nb,0,1\n", "t.csv:3: has 3 fields; the header has 4"},
           Case{"id,lower,upper,size\na,0,1,2x\n", "t.csv:2: size is '2x'"},
           Case{"id,lower,upper,size\na,0,1.5,2\n", "t.csv:2: upper is '1.5'"},
           Case{"id,lower,upper,size\na,0,1,\n", "t.csv:2: size is ''"},
           Case{"id,lower,upper,size\na,0,1,0\n", "t.csv:2: size is 0"},
           Case{"id,lower,upper,size\na,0,1,-4\n", "t.csv:2: size is -4"},
           Case{"id,lower,upper,size\na,0,1,9223372036854775808\n", "t.csv:2: size is '9223372036854775808'"},
           Case{"id,lower,upper,size\na,3,3,1\n", "t.csv:2: lower is 3 and upper 3"},
           Case{"id,lower,upper,size\na,0,1,2\n\na,0,1,2\n", "t.csv:4: id 'a' is that of line 2 too"},
           Case{"id,lower,upper,size\na,0,1,4611686018427387000\nb,0,1,4611686018427387000\n",
                "t.csv:3: the sizes up to here add up to 2^62"},
       }) {
    const Outcome outcome = pack_text(text);
    EXPECT_EQ(outcome.exit_code, 1) << text;
    EXPECT_THAT(outcome.err, testing::StartsWith("renaissance: t.csv:")) << text;
    EXPECT_THAT(outcome.err, HasSubstr(expected)) << text;
    EXPECT_EQ(outcome.out, "") << text;
  }
}

TEST(PackRefusal, FilesThatCannotBeReadOrWritten) {
  const TempFolder folder;
  write_file(folder / "t.csv", FOUR);
  const Outcome missing = run_program(folder.path(), {"pack", "none.csv"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.csv: cannot be opened"));
  const Outcome unwritable = run_program(folder.path(), {"pack", "t.csv", "--output", "none/o.csv"});
  EXPECT_EQ(unwritable.exit_code, 1);
  EXPECT_THAT(unwritable.err,
              HasSubstr("none/o.csv: cannot be written: No such file or directory; choose another file"));
}

TEST(Pack, OutputGoesIntoAPipe) {
  const TempFolder folder;
  write_file(folder / "t.csv", FOUR);
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int descriptor = open(pipe.c_str(), O_RDWR | O_NONBLOCK);  // a reader, so that nobody waits for one
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(run_program(folder.path(), {"pack", "t.csv", "--output", "pipe"}).exit_code, 0);
  std::string received(4096, '\0');
  received.resize(
      static_cast<size_t>(std::max<ssize_t>(read(descriptor, received.data(), received.size()), 0)));
  close(descriptor);
  EXPECT_THAT(received, testing::StartsWith("id,lower,upper,size,offset\na,0,2,3,"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(Pack, OutputInPlaceOfTheSummary) {
  const Outcome outcome = pack_text(FOUR, {"--output", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("id,lower,upper,size,offset\na,0,2,3,"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("lower bound")));
  const Outcome both = pack_text(FOUR, {"--output", "-", "--json"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--output is '-' and --json is given, both for standard output"));
  EXPECT_EQ(both.out, "");
}

TEST(PackRefusal, ArgumentsOutOfRange) {
  EXPECT_THAT(pack_text(FOUR, {"--capacity", "0"}).err,
              HasSubstr("--capacity: is '0'; expected an integer from 1 to 9223372036854775807"));
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--capacity", "0"},
                                             {"--capacity", "-1"},
                                             {"--capacity", "1KiB"},
                                             {"--capacity", "9223372036854775808"},
                                             {"--alignment", "0"},
                                             {"--fast"}}) {
    const Outcome outcome = pack_text(FOUR, options);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(options);
    EXPECT_EQ(outcome.out, "") << testing::PrintToString(options);
  }
}

}  // namespace
}  // namespace tr::test
