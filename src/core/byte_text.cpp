#include "renaissance/core/byte_text.h"

#include <array>
#include <cstdio>

#include "renaissance/core/error.h"

namespace tr {

std::string human_bytes(int64_t bytes) {
  constexpr std::array<const char*, 6> UNITS{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return cat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < UNITS.size(); ++unit) value /= 1024.0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, UNITS[unit]);
  return text.data();
}

std::string human_and_exact(int64_t bytes) { return cat(human_bytes(bytes), " (", bytes, ")"); }

}  // namespace tr
