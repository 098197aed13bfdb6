#include "graph/packing/placement.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace tr::packing {

namespace {

constexpr int64_t NOT_PLACED = -1;
constexpr int64_t STEPS_PER_PLACEMENT = 20;

/// Items ascending by a key; equals by place, so that the order is the same on every machine.
template <typename Key>
Order sorted(const Sections& sections, const Key& key) {
  Order order(sections.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::tuple_cat(key(sections.items[static_cast<size_t>(a)]), std::tuple(a)) <
           std::tuple_cat(key(sections.items[static_cast<size_t>(b)]), std::tuple(b));
  });
  return order;
}

}  // namespace

Order order_by(const Sections& sections, Priority priority) {
  const auto area = [](const Item& i) {
    return static_cast<double>(i.size) * static_cast<double>(i.lifetime);
  };
  switch (priority) {
    case Priority::SIZE:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.size, -i.lifetime); });
    case Priority::LIFETIME:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.lifetime, -i.size); });
    case Priority::AREA:
      return sorted(sections, [&](const Item& i) { return std::tuple(-area(i)); });
    case Priority::CONTENTION_SIZE:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.contention, -i.size, -i.lifetime); });
    case Priority::CONTENTION_LIFETIME:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.contention, -i.lifetime, -i.size); });
    case Priority::BIRTH:
      break;
  }
  return sorted(sections, [](const Item& i) { return std::tuple(i.lower, -i.size, -i.lifetime); });
}

Placer::Placer(const Sections& sections)
    : sections_(sections), occupied_(sections.load.size()), offsets_(sections.items.size(), NOT_PLACED) {}

void Placer::find_extra(int32_t item) {
  extra_.clear();
  if (sections_.extra.empty()) return;
  for (const int32_t other : sections_.extra[static_cast<size_t>(item)]) {
    const int64_t offset = offsets_[static_cast<size_t>(other)];
    if (offset != NOT_PLACED)
      extra_.push_back({offset, offset + sections_.items[static_cast<size_t>(other)].size});
  }
}

bool Placer::place(const Order& order, Fit fit, int64_t most_bytes, Budget& budget) {
  occupied_.clear();
  std::fill(offsets_.begin(), offsets_.end(), NOT_PLACED);
  bytes_ = 0;
  for (const int32_t index : order) {
    const Item& item = sections_.items[static_cast<size_t>(index)];
    const int64_t steps_before = occupied_.steps();
    find_extra(index);
    const int64_t offset = fit == Fit::FIRST ? occupied_.first_fit(item.first, item.last, item.size, extra_)
                                             : occupied_.best_fit(item.first, item.last, item.size, extra_);
    const bool is_too_high = offset + item.size > most_bytes;
    if (!is_too_high) occupied_.take(item.first, item.last, {offset, offset + item.size});
    budget.left -= STEPS_PER_PLACEMENT + occupied_.steps() - steps_before;
    if (is_too_high || budget.is_spent()) return false;
    offsets_[static_cast<size_t>(index)] = offset;
    bytes_ = std::max(bytes_, offset + item.size);
  }
  return true;
}

}  // namespace tr::packing
