/// Counts heap allocations of a program by replacing its allocation functions.
#pragma once

#include <cstdint>

namespace tr::test {

struct AllocationCounts {
  int64_t ours = 0;    ///< called from our own code or the standard library under it
  int64_t vendor = 0;  ///< called from inside a shared library (oneDNN, the OpenMP runtime)
  int64_t vendor_bytes = 0;
  int64_t largest_bytes = 0;  ///< by anyone
};

/// Counting covers every thread between the two calls.
void start_counting();
AllocationCounts stop_counting();

}  // namespace tr::test
