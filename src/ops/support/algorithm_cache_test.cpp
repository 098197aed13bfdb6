#include "ops/support/algorithm_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace tr {
namespace {

TEST(AlgorithmCache, RemembersAcrossProcesses) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "new" / "algorithms.json";
  AlgorithmCache first(file, "card 1");
  EXPECT_FALSE(first.find("conv").has_value());
  first.store("conv", "engine 1");
  first.store("conv", "engine 2");
  first.save();
  const AlgorithmCache second(file, "card 1");
  EXPECT_EQ(second.find("conv"), "engine 2");
  EXPECT_FALSE(AlgorithmCache(file, "card 2").find("conv").has_value()) << "another machine chooses anew";
}

TEST(AlgorithmCache, KeepsWhatOthersStoredMeanwhile) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "algorithms.json";
  AlgorithmCache one(file, "card"), two(file, "card");
  one.store("a", "1");
  one.save();
  two.store("b", "2");
  two.save();
  const AlgorithmCache all(file, "card");
  EXPECT_EQ(all.find("a"), "1");
  EXPECT_EQ(all.find("b"), "2");
}

TEST(AlgorithmCache, ADamagedFileCountsAsEmpty) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "algorithms.json";
  for (const char* text : {"", "{", "[1]", R"({"machine": 3})", R"({"machine": "card", "choices": [1]})",
                           R"({"machine": "card", "choices": {"a": 1}})"}) {
    std::ofstream(file) << text;
    AlgorithmCache cache(file, "card");
    EXPECT_FALSE(cache.find("a").has_value()) << text;
    cache.store("a", "1");
    cache.save();
    EXPECT_EQ(AlgorithmCache(file, "card").find("a"), "1") << text;
  }
}

TEST(AlgorithmCache, AFolderThatCannotBeWrittenIsNoError) {
  AlgorithmCache nowhere("/proc/nowhere/algorithms.json", "card");
  nowhere.store("a", "1");
  nowhere.save();
  EXPECT_EQ(nowhere.find("a"), "1");
  AlgorithmCache in_memory({}, "card");
  in_memory.store("a", "1");
  in_memory.save();
  EXPECT_EQ(in_memory.find("a"), "1");
}

}  // namespace
}  // namespace tr
