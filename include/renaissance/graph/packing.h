/// Offset packing: gives tensors that are never alive together the same bytes. Pure functions from a problem
/// to offsets, for plans of our own and for anyone's `id,lower,upper,size` file (`renaissance pack`).
///
///   PackingProblem problem;
///   problem.items = {{"a", 0, 2, 512}, {"b", 1, 3, 256}, {"c", 2, 4, 512}};
///   const Packing packing = pack(problem);            // c lies where a was: 768 bytes
///   validate_packing(problem, packing.offsets);
///
/// The problem is that of dynamic storage allocation; finding the least bytes is NP-hard. The same problem
/// and options give the same offsets on every machine: work is bounded by counts, never by time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tr {

/// Bytes that are needed from time `lower` until before time `upper`.
struct PackingItem {
  std::string name;  ///< for messages
  int64_t lower = 0, upper = 0;
  int64_t size = 0;  ///< bytes, at least 1
};

struct PackingProblem {
  std::vector<PackingItem> items;
  /// Offsets are multiples of it, and a size counts as rounded up to it.
  int64_t alignment = 1;
  /// Pairs of places in `items` that may not share bytes although their lifetimes do not meet: where nodes
  /// run side by side, positions in a list do not say who comes first.
  std::vector<std::pair<int32_t, int32_t>> extra_conflicts;
};

struct PackingOptions {
  /// Bytes that are enough: the search stops there. 0 asks for as few as can be found.
  int64_t capacity = 0;
  /// Multiplies the steps that the greedy orders and the search may take. 1 is some 7 ms for 1,000 items and
  /// 0.6 seconds for 20,000; up to 630 items are also searched for, up to 0.1 seconds.
  int64_t effort = 1;
  /// Search until `exact_nodes` are used up, however many items there are, 1 to 10 microseconds each for some
  /// hundred items. Refused above 20,000,000 pairs alive together.
  bool exact = false;
  int64_t exact_nodes = 2'000'000;
};

struct Packing {
  std::vector<int64_t> offsets;  ///< by place in `items`
  int64_t bytes = 0;             ///< end of the item that ends highest, sizes rounded up to the alignment
  int64_t lower_bound = 0;       ///< largest sum of rounded sizes alive at once; no packing needs less
  /// Nothing better exists: `bytes` is the least possible or, when a capacity was given and is exceeded, the
  /// exhaustive search has shown that nothing fits it.
  bool proven = false;
  /// The exhaustive search was left out: not needed, or there are more items than the effort lets it look at.
  bool greedy_only = true;
};

/// Best of greedy orders (by nearness to the peak, size class, contention, area, birth; first fit, filling
/// from the bottom, best fit), then an exhaustive search with restarts, which either finds the least or ends
/// at its limit. Both stop when the lower bound or the capacity is reached. Throws ValueError, naming the
/// item, for a size below 1, an empty lifetime, and sizes that add up to 2^62 bytes or more; for an alignment
/// below 1, and options out of range; IndexError for an extra conflict of items that do not exist.
Packing pack(const PackingProblem& problem, const PackingOptions& options = {});

/// Shares no code with pack(). Throws ValueError that names two items which overlap in time (or are an extra
/// conflict) and in bytes, or one whose offset is negative or not aligned; StateError when the counts differ.
void validate_packing(const PackingProblem& problem, std::span<const int64_t> offsets);

}  // namespace tr
