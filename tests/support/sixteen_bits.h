/// FP16 and BF16 as tests convert them, written from their definitions and not from the code under test.
#pragma once

#include <cstdint>

#include "renaissance/core/types.h"

namespace tr::test {

/// Rounds to nearest even; what does not fit becomes infinite, NaN stays NaN. `dtype` is FP16 or BF16.
uint16_t to_16bit(float value, DType dtype);
float from_16bit(uint16_t bits, DType dtype);

/// `value` as an element of `dtype` holds it; FP32 holds every value.
float rounded(float value, DType dtype);

}  // namespace tr::test
