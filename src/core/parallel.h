/// Loops cut into pieces by the problem alone, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tr {

/// Number of pieces a loop over `items` is cut into. Reductions add the pieces in order.
inline int64_t fixed_chunks(int64_t items, int64_t least_items_per_chunk) {
  constexpr int64_t MOST_CHUNKS = 64;
  return std::clamp<int64_t>(items / std::max<int64_t>(least_items_per_chunk, 1), 1, MOST_CHUNKS);
}

/// body(first, last) over pieces of [0, items), in parallel.
template <typename Body>
void parallel_pieces(int64_t items, Body body) {
  constexpr int64_t LEAST_ITEMS = 1 << 14;  // below this a thread's wake-up costs more than the loop
  const int64_t chunks = fixed_chunks(items, LEAST_ITEMS);
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(items * chunk / chunks, items * (chunk + 1) / chunks);
}

}  // namespace tr
