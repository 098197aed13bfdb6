// Every input that the fuzzers found worth keeping, in every test run.
#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/targets.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

void replay(const std::string& target, void (*run)(std::span<const uint8_t>)) {
  int inputs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TR_SOURCE_DIR "/tests/fuzz/corpus/" + target)) {
    const std::string text = test::read_file(entry.path());
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    run(bytes);
    run(std::span(bytes).first(bytes.size() / 2));  // cut short
    ++inputs;
  }
  EXPECT_GE(inputs, 7) << target;
}

TEST(FuzzCorpus, Recipes) { replay("recipe", fuzz::recipe); }
TEST(FuzzCorpus, Safetensors) { replay("safetensors", fuzz::safetensors); }
TEST(FuzzCorpus, Idx) { replay("idx", fuzz::idx); }

}  // namespace
}  // namespace tr
