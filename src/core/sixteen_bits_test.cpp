#include "core/sixteen_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/expect_error.h"
#include "support/sixteen_bits.h"

namespace tr {
namespace {

constexpr std::array DTYPES{DType::FP16, DType::BF16};
constexpr uint32_t PATTERNS = 1u << 16;

std::vector<float> widened(DType dtype) {
  std::vector<uint16_t> bits(PATTERNS);
  for (uint32_t i = 0; i < PATTERNS; ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> values(PATTERNS);
  with_16bit(dtype, [&](auto type) { widen(type, bits.data(), values.data(), PATTERNS); });
  return values;
}

std::vector<uint16_t> narrowed(DType dtype, const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  with_16bit(dtype, [&](auto type) { narrow(type, values.data(), bits.data(), std::ssize(values)); });
  return bits;
}

TEST(SixteenBitConversion, WidensEveryPattern) {
  for (const DType dtype : DTYPES) {
    const std::vector<float> values = widened(dtype);
    for (uint32_t i = 0; i < PATTERNS; ++i) {
      const float want = test::from_16bit(static_cast<uint16_t>(i), dtype);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(values[i]) : values[i] == want)
          << dtype_name(dtype) << ' ' << i;
      ASSERT_EQ(std::signbit(values[i]), (i & 0x8000u) != 0) << dtype_name(dtype) << ' ' << i;
    }
  }
}

/// Every 16-bit value, what lies half-way to the next, and the FP32 values on either side of both.
TEST(SixteenBitConversion, RoundsToNearestEven) {
  for (const DType dtype : DTYPES) {
    std::vector<float> values;
    for (const float value : widened(dtype)) {
      const auto bits = std::bit_cast<uint32_t>(value);
      const uint32_t half = dtype == DType::BF16 ? 1u << 15 : 1u << 12;
      for (const uint32_t from : {bits, bits + half})
        for (const uint32_t near : {from - 1u, from, from + 1u}) values.push_back(std::bit_cast<float>(near));
    }
    for (int exponent = -30; exponent < -12; ++exponent)  // where FP16 has fewer digits
      for (const double factor : {1.0, 1.25, 1.4999999, 1.5, 1.5000001, 1.75, 1.99999})
        values.push_back(static_cast<float>(std::ldexp(factor, exponent)));
    const std::vector<uint16_t> bits = narrowed(dtype, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t want = test::to_16bit(values[i], dtype);
      const bool same =
          std::isnan(values[i]) ? std::isnan(test::from_16bit(bits[i], dtype)) : bits[i] == want;
      ASSERT_TRUE(same) << dtype_name(dtype) << ' ' << values[i] << " became " << bits[i] << ", expected "
                        << want;
    }
  }
}

TEST(SixteenBitConversion, PixelsWithAStrideAndOtherTypes) {
  const std::vector<float> dense{1, 2, 3, -4, -5, -6};
  std::vector<uint16_t> padded(8, 0xffff);
  std::vector<float> back(6);
  with_16bit(DType::FP16, [&](auto type) {
    narrow_pixels(type, dense.data(), 2, 3, padded.data(), 4);
    widen_pixels(type, padded.data(), 4, 2, 3, back.data());
  });
  EXPECT_EQ(padded[3], 0);
  EXPECT_EQ(padded[7], 0);
  EXPECT_EQ(back, dense);
  test::refuses(ErrorKind::TypeError, "expected fp16 or bf16", [] { with_16bit(DType::FP32, [](auto) {}); });
}

}  // namespace
}  // namespace tr
