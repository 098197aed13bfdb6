#include "support/sixteen_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "renaissance/core/error.h"

namespace tr::test {

namespace {

struct Format {
  int fraction_bits, bias;

  int exponent_mask() const { return (1 << (15 - fraction_bits)) - 1; }
  int least_exponent() const { return 1 - bias; }
};

Format format_of(DType dtype) {
  TR_CHECK(dtype == DType::FP16 || dtype == DType::BF16, TypeError,
           cat("16-bit type: ", dtype_name(dtype), "; expected fp16 or bf16"));
  return dtype == DType::FP16 ? Format{10, 15} : Format{7, 127};
}

}  // namespace

uint16_t to_16bit(float value, DType dtype) {
  const Format format = format_of(dtype);
  const int one = 1 << format.fraction_bits;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = format.exponent_mask() << format.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | one / 2);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (value == 0.0f) return static_cast<uint16_t>(sign);
  const double magnitude = std::abs(double{value});
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent());
  // In steps of the last bit; a normal number has from one to two times `one` of them, a subnormal fewer.
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const int bits = steps < one ? steps : ((exponent + format.bias - 1) << format.fraction_bits) + steps;
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

float from_16bit(uint16_t bits, DType dtype) {
  const Format format = format_of(dtype);
  const int one = 1 << format.fraction_bits;
  const int exponent = (bits & 0x7fff) >> format.fraction_bits, fraction = bits & (one - 1);
  double magnitude;
  if (exponent == format.exponent_mask())
    magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, format.least_exponent() - format.fraction_bits);
  else
    magnitude = std::ldexp(one + fraction, exponent - format.bias - format.fraction_bits);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

float rounded(float value, DType dtype) {
  return dtype == DType::FP32 ? value : from_16bit(to_16bit(value, dtype), dtype);
}

}  // namespace tr::test
