#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

TEST(Bench, SaysWhatRanAfterOverrides) {
  const TempFolder folder;
  std::vector<std::string> arguments{"bench",          "mlp",       "--batch",   "8",   "train.batch_size=4",
                                     "model.name=cnn", "threads=1", "--seconds", "0.01"};
  const Outcome text = run_program(folder.path(), arguments);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, testing::StartsWith("cnn, batch 4, fp32, cpu: step "));
  arguments.push_back("--json");
  const auto json = nlohmann::json::parse(run_program(folder.path(), arguments).out);
  EXPECT_EQ(json["model"], "cnn");
  EXPECT_EQ(json["batch"], 4);
  EXPECT_EQ(json["precision"], "fp32");
  EXPECT_EQ(json["device"], "cpu");
}

TEST(Bench, RefusesNumbersThatAreNone) {
  const TempFolder folder;
  for (const char* nonsense : {"0", "-1", "1e3", "9223372036854775808"}) {
    const Outcome outcome = run_program(folder.path(), {"bench", "mlp", "--batch", nonsense});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(cat("--batch: is '", nonsense, "'; expected an integer from 1 to ")));
  }
}

}  // namespace
}  // namespace tr::test
