/// Placing items one after the other in a given order, and the orders worth trying.
#pragma once

#include <vector>

#include "graph/packing/occupied.h"
#include "graph/packing/sections.h"

namespace tr::packing {

/// Steps that may still be taken, about 5 ns each.
struct Budget {
  int64_t left = 0;
  bool is_spent() const { return left <= 0; }
};
inline constexpr Budget UNLIMITED{int64_t{1} << 62};

enum class Fit { FIRST, BEST };

using Order = std::vector<int32_t>;

/// Keys of orders, largest, longest or earliest first; equals by birth, then lifetime. The peak is the first
/// section of the largest load, nearness to it is counted in sections; a size class is a power of two.
enum class Priority {
  AREA,                 ///< size times lifetime
  BIRTH,                ///< birth, size
  CONTENTION_SIZE,      ///< contention, size, lifetime
  CONTENTION_LIFETIME,  ///< contention, lifetime, size
  CONTENTION_AREA,      ///< contention, size times lifetime
  PEAK_SIZE,            ///< nearness to the peak, size
  PEAK_SIZE_DEATH,      ///< nearness to the peak, size, last death
  PEAK_LIFETIME,        ///< nearness to the peak, lifetime
  CLASS_PEAK_LIFETIME,  ///< size class, nearness to the peak, lifetime
};

Order order_by(const Sections& sections, Priority priority);

class Placer {
 public:
  explicit Placer(const Sections& sections);

  /// Places the items in `order`, each at the lowest (or tightest) place that is free. Gives up as soon as an
  /// item would end above `most_bytes` or the budget, from which the work is taken, is used up; returns
  /// whether all were placed. offsets() and bytes() tell where.
  bool place(const Order& order, Fit fit, int64_t most_bytes, Budget& budget);
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t bytes() const { return bytes_; }

 private:
  /// What the item's extra conflicts hold already.
  void find_extra(int32_t item);

  const Sections& sections_;
  Occupied occupied_;
  std::vector<int64_t> offsets_;
  std::vector<Span> extra_;
  int64_t bytes_ = 0;
};

}  // namespace tr::packing
