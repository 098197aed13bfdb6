#include "renaissance/core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace tr {
namespace {

using Block = Philox::Block;

// Known answers of philox4x32-10 from the Random123 distribution (kat_vectors).
static_assert(Philox(0)(0, 0, 0, 0) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});

TEST(Philox, KnownAnswers) {
  constexpr uint32_t ONES = 0xffffffff;
  EXPECT_EQ(Philox(0)(0, 0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0})(ONES, ONES, ONES, ONES),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822)(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AtPlacesIndexStreamAndPurposeInTheCounter) {
  const Philox random(7);
  EXPECT_EQ(random.at(RandomPurpose::CROP, 5, 0x0000000200000009),
            random(9, 2, 5, static_cast<uint32_t>(RandomPurpose::CROP)));
}

TEST(Philox, StreamsDiffer) {
  std::set<Block> blocks;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (const RandomPurpose purpose :
         {RandomPurpose::INIT, RandomPurpose::SHUFFLE, RandomPurpose::CROP, RandomPurpose::FLIP,
          RandomPurpose::DROPOUT, RandomPurpose::SYNTHETIC})
      for (const uint32_t stream : {0u, 1u})
        for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
          blocks.insert(Philox(seed).at(purpose, stream, index));
  EXPECT_EQ(blocks.size(), 3u * 6u * 2u * 3u);
}

TEST(Philox, UniformCoversTheHalfOpenInterval) {
  EXPECT_EQ(Philox::uniform(0), 0.0f);
  EXPECT_EQ(Philox::uniform(0x80000000), 0.5f);
  EXPECT_LT(Philox::uniform(0xffffffff), 1.0f);
  constexpr int COUNT = 4096;
  double sum = 0;
  for (int i = 0; i < COUNT; ++i)
    for (const uint32_t bits : Philox(1).at(RandomPurpose::INIT, 0, static_cast<uint64_t>(i)))
      sum += Philox::uniform(bits);
  // The mean of 16384 uniforms has a standard deviation of 0.0023.
  EXPECT_NEAR(sum / (4 * COUNT), 0.5, 0.01);
}

TEST(Philox, BelowCoversItsRange) {
  EXPECT_EQ(Philox::below(0, 10), 0u);
  EXPECT_EQ(Philox::below(0xffffffff, 10), 9u);
  EXPECT_EQ(Philox::below(0xffffffff, 1), 0u);
  std::array<int, 5> counts{};
  for (uint64_t i = 0; i < 1000; ++i)
    ++counts.at(Philox::below(Philox(2).at(RandomPurpose::CROP, 0, i)[0], 5));
  for (const int count : counts) EXPECT_NEAR(count, 200, 60);
}

}  // namespace
}  // namespace tr
