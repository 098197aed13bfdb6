/// Checks of the command line's integers, with a text that says what would be right.
#pragma once

#include <CLI/Validators.hpp>
#include <cstdint>
#include <limits>

namespace tr::cli {

/// Decimal integers from `least` to `most`. For Option::transform(): the text is replaced by its plain
/// decimal form, since CLI11 itself would read "010" as octal and clamp what is too long for 64 bits.
CLI::Validator integer_range(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace tr::cli
