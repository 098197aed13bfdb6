#include "graph/packing/search.h"

#include <algorithm>
#include <limits>

#include "renaissance/core/philox.h"

namespace tr::packing {

namespace {

constexpr uint64_t SEED = 0x7061636b;
constexpr uint32_t NEARBY = 50;
constexpr uint32_t ITEMS_PER_STEP = 2;  // copied and looked through

/// Moves the item at place `from` to the earlier place `to`.
void move_up(Order& order, size_t from, size_t to) {
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to),
              order.begin() + static_cast<std::ptrdiff_t>(from),
              order.begin() + static_cast<std::ptrdiff_t>(from) + 1);
}

/// Places in the order whose items end above the lower bound.
std::vector<size_t> too_high(const Sections& sections, const Order& order,
                             const std::vector<int64_t>& offsets) {
  std::vector<size_t> places;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto index = static_cast<size_t>(order[place]);
    if (offsets[index] + sections.items[index].size > sections.lower_bound) places.push_back(place);
  }
  return places;
}

}  // namespace

Order improve_order(const Sections& sections, Placer& placer, Order order, int64_t target, Budget& budget) {
  const Philox philox(SEED);
  Budget first = UNLIMITED;
  placer.place(order, Fit::FIRST, std::numeric_limits<int64_t>::max(), first);
  int64_t bytes = placer.bytes();
  std::vector<size_t> high = too_high(sections, order, placer.offsets());
  Order next;
  for (uint32_t step = 0; bytes > target && !budget.is_spent(); ++step) {
    const auto random = philox(step, 0, 0, 0);
    const auto count = static_cast<uint32_t>(order.size());
    const size_t from = high[Philox::below(random[0], static_cast<uint32_t>(high.size()))];
    next = order;
    move_up(next, from, Philox::below(random[1], static_cast<uint32_t>(from) + 1));
    // Half of the steps also disturb the order elsewhere, so that plateaus are left.
    if (random[2] % 2 == 0) {
      const uint32_t to = Philox::below(random[3], count);
      move_up(next, std::min(count - 1, to + random[2] / 2 % NEARBY), to);
    }
    if (placer.place(next, Fit::FIRST, bytes, budget)) {
      order = next;
      bytes = placer.bytes();
      high = too_high(sections, order, placer.offsets());
    }
    budget.left -= count / ITEMS_PER_STEP;
  }
  return order;
}

}  // namespace tr::packing
