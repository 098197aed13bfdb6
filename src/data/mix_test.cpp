#include "data/mix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "core/sixteen_bits.h"
#include "support/expect_error.h"

namespace tr {
namespace {

constexpr uint64_t SEED = 5;

/// λ of many mixup batches.
std::vector<double> draw_lambdas(double alpha, int64_t batches) {
  std::vector<double> lambdas;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const BatchMix mix = draw_mix({.mixup_alpha = alpha}, SEED, 3, batch, 8, 8);
    EXPECT_FALSE(mix.has_box());
    EXPECT_TRUE(mix.share >= 0.0f && mix.share <= 1.0f) << mix.share;
    lambdas.push_back(1.0 - double{mix.share});
  }
  return lambdas;
}

/// Mean 1/2, variance 1 / (4 (2 alpha + 1)), fourth central moment 3 / (16 (2 alpha + 1) (2 alpha + 3)).
TEST(Mix, LambdaHasTheMomentsOfBeta) {
  constexpr int64_t BATCHES = 20000;
  for (const double alpha : {0.1, 0.2, 0.5, 0.8, 1.0, 1.5, 8.0}) {
    double mean = 0.0, variance = 0.0, fourth = 0.0;
    for (const double lambda : draw_lambdas(alpha, BATCHES)) {
      const double apart = lambda - 0.5;
      mean += lambda / BATCHES;
      variance += apart * apart / BATCHES;
      fourth += std::pow(apart, 4) / BATCHES;
    }
    const double want = 1.0 / (4.0 * (2.0 * alpha + 1.0));
    const double want_fourth = 3.0 / (16.0 * (2.0 * alpha + 1.0) * (2.0 * alpha + 3.0));
    EXPECT_NEAR(mean, 0.5, 5.0 * std::sqrt(want / BATCHES)) << alpha;
    EXPECT_NEAR(variance, want, 5.0 * std::sqrt((want_fourth - want * want) / BATCHES)) << alpha;
    EXPECT_NEAR(fourth, want_fourth, 0.05 * want_fourth) << alpha;
  }
}

TEST(Mix, LambdaIsUniformForAlphaOne) {
  std::array<int, 10> counts{};
  for (const double lambda : draw_lambdas(1.0, 10000))
    ++counts.at(std::min<size_t>(static_cast<size_t>(10.0 * lambda), 9));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Mix, ExtremeAlphasGiveNumbers) {
  for (const double alpha : {1e-300, 1e-9, 1e-3, 1e6, 1e300})
    for (const double lambda : draw_lambdas(alpha, 200))
      EXPECT_TRUE(alpha < 1.0 ? lambda < 1e-3 || lambda > 1.0 - 1e-3 || alpha == 1e-3
                              : std::abs(lambda - 0.5) < 0.01)
          << alpha << ' ' << lambda;
}

TEST(Mix, KeyedBySeedEpochAndBatch) {
  const MixSettings settings{.mixup_alpha = 0.4, .cutmix_alpha = 1.0};
  std::set<uint32_t> shares;
  for (const uint64_t seed : {1ull, 2ull, 1ull << 40})
    for (const int64_t epoch : {1, 2})
      for (const int64_t batch : {0, 1, 128}) {
        const BatchMix mix = draw_mix(settings, seed, epoch, batch, 32, 32);
        EXPECT_EQ(mix, draw_mix(settings, seed, epoch, batch, 32, 32));
        shares.insert(std::bit_cast<uint32_t>(mix.share));
      }
  EXPECT_GT(shares.size(), 14u);  // of 18; boxes may coincide
}

TEST(Mix, BothAreChosenByTheirProbabilities) {
  int cut = 0, blended = 0;
  for (int64_t batch = 0; batch < 4000; ++batch) {
    const BatchMix mix =
        draw_mix({.mixup_alpha = 1.0, .cutmix_alpha = 1.0, .cutmix_probability = 0.25, .probability = 0.8},
                 SEED, 1, batch, 64, 64);
    cut += mix.has_box();
    blended += mix.mixes() && !mix.has_box();
  }
  EXPECT_NEAR(cut, 800, 130);
  EXPECT_NEAR(blended, 2400, 170);
  EXPECT_FALSE(draw_mix({}, SEED, 1, 1, 8, 8).mixes());
  EXPECT_FALSE(draw_mix({.cutmix_alpha = 1.0, .probability = 0.0}, SEED, 1, 1, 8, 8).mixes());
}

TEST(Mix, ABoxLiesInTheImageAndItsShareIsItsArea) {
  double share = 0.0;
  for (int64_t batch = 0; batch < 2000; ++batch) {
    const BatchMix mix = draw_mix({.cutmix_alpha = 1.0}, SEED, 1, batch, 24, 40);
    EXPECT_EQ(mix.mixes(), mix.has_box());
    ASSERT_TRUE(mix.top >= 0 && mix.bottom <= 24 && mix.left >= 0 && mix.right <= 40);
    EXPECT_FLOAT_EQ(mix.share,
                    static_cast<float>((mix.bottom - mix.top) * (mix.right - mix.left)) / (24.0f * 40.0f));
    share += double{mix.share} / 2000.0;
  }
  // Of 1 - λ, whose mean is 1/2, the edges leave E[side (1 - side / 4)]² with side² uniform: (2/3 - 1/8)² at
  // least, and less than that for correlation's sake never.
  EXPECT_GT(share, 0.26);
  EXPECT_LT(share, 0.40);
}

/// Batches of 1, 4 and 5 samples of 3 × 4 pixels with 2 channels: element = sample + position / 100.
std::vector<float> make_pixels(int64_t samples, int64_t stride) {
  std::vector<float> pixels;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t i = 0; i < 12 * stride; ++i)
      pixels.push_back(i % stride < 2 ? static_cast<float>(sample) + static_cast<float>(i) / 100.0f : 0.0f);
  return pixels;
}

TEST(Mix, PixelsOfAPairInEveryType) {
  BatchMix cut;
  cut.share = 1.0f / 3.0f;
  cut.top = 1, cut.bottom = 3, cut.left = 2, cut.right = 4;
  BatchMix blend;
  blend.share = 0.3f;
  for (const BatchMix& mix : {cut, blend, BatchMix{}})
    for (const int64_t samples : {1, 4, 5}) {
      const std::vector<float> before = make_pixels(samples, 2);
      std::vector<float> after = before;
      const PixelBatch batch{reinterpret_cast<std::byte*>(after.data()), DType::FP32, samples, 3, 4, 2};
      for (int64_t pair = 0; pair < batch.pairs(); ++pair) mix_pixels(mix, batch, pair, pair + 1);
      for (int64_t i = 0; i < std::ssize(after); ++i) {
        const int64_t sample = i / 24, place = i % 24, row = place / 8, column = place % 8 / 2;
        const float own = before[static_cast<size_t>(i)],
                    partner = before[static_cast<size_t>((samples - 1 - sample) * 24 + place)];
        const float want = mix.has_box() ? (mix.in_box(row, column) ? partner : own)
                                         : (1.0f - mix.share) * own + mix.share * partner;
        ASSERT_FLOAT_EQ(after[static_cast<size_t>(i)], want) << samples << " samples, element " << i;
      }
    }
}

TEST(Mix, SixteenBitPixelsAreRoundedAndTheirPaddingStaysZero) {
  BatchMix cut;
  cut.share = 0.25f;
  cut.top = 0, cut.bottom = 1, cut.left = 0, cut.right = 3;
  BatchMix blend;
  blend.share = 0.3f;
  for (const DType dtype : {DType::FP16, DType::BF16})
    with_16bit(dtype, [&](auto type) {
      for (const BatchMix& mix : {cut, blend}) {
        std::vector<float> wide = make_pixels(4, 4);
        std::vector<uint16_t> narrow(wide.size());
        tr::narrow(type, wide.data(), narrow.data(), std::ssize(wide));
        widen(type, narrow.data(), wide.data(), std::ssize(wide));
        const PixelBatch got{reinterpret_cast<std::byte*>(narrow.data()), dtype, 4, 3, 4, 4},
            want{reinterpret_cast<std::byte*>(wide.data()), DType::FP32, 4, 3, 4, 4};
        mix_pixels(mix, got, 0, 2);
        mix_pixels(mix, want, 0, 2);
        for (size_t i = 0; i < wide.size(); ++i)
          ASSERT_EQ(narrow[i], decltype(type)::narrow(wide[i])) << dtype_name(dtype) << ' ' << i;
      }
    });
}

TEST(Mix, RefusesWhatIsNoDistribution) {
  const auto refuse = [](const MixSettings& settings, const std::string& part) {
    test::expect_error(ErrorKind::ValueError, {"mix", part}, [&] { check_mix(settings); });
  };
  EXPECT_NO_THROW(check_mix({}));
  refuse({.mixup_alpha = -0.1}, "alpha of mixup is -0.1");
  refuse({.cutmix_alpha = std::nan("")}, "alpha of cutmix is nan");
  refuse({.cutmix_probability = 1.5}, "probability 1.5");
  refuse({.probability = -1.0}, "probability -1");
}

}  // namespace
}  // namespace tr
