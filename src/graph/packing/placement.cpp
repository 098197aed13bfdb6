#include "graph/packing/placement.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

namespace tr::packing {

namespace {

constexpr int64_t NOT_PLACED = -1;
constexpr int64_t STEPS_PER_PLACEMENT = 20;

/// Items ascending by a key; equals by birth, lifetime and size, so that the order of the list hardly
/// matters, and by place, so that the order is the same on every machine.
template <typename Key>
Order sorted(const Sections& sections, const Key& key) {
  const auto full_key = [&](int32_t index) {
    const Item& item = sections.items[static_cast<size_t>(index)];
    return std::tuple_cat(key(item), std::tuple(item.lower, -item.lifetime, -item.size, index));
  };
  Order order(sections.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return full_key(a) < full_key(b); });
  return order;
}

}  // namespace

Order order_by(const Sections& sections, Priority priority) {
  const auto area = [](const Item& i) {
    return static_cast<double>(i.size) * static_cast<double>(i.lifetime);
  };
  const auto peak = static_cast<int32_t>(std::max_element(sections.load.begin(), sections.load.end()) -
                                         sections.load.begin());
  const auto distance = [&](const Item& i) { return std::max({i.first - peak, peak - i.last, 0}); };
  switch (priority) {
    case Priority::AREA:
      return sorted(sections, [&](const Item& i) { return std::tuple(-area(i)); });
    case Priority::CONTENTION_SIZE:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.contention, -i.size, -i.lifetime); });
    case Priority::CONTENTION_LIFETIME:
      return sorted(sections, [](const Item& i) { return std::tuple(-i.contention, -i.lifetime, -i.size); });
    case Priority::CONTENTION_AREA:
      return sorted(sections, [&](const Item& i) { return std::tuple(-i.contention, -area(i)); });
    case Priority::PEAK_SIZE:
      return sorted(sections, [&](const Item& i) { return std::tuple(distance(i), -i.size); });
    case Priority::PEAK_SIZE_DEATH:
      return sorted(sections,
                    [&](const Item& i) { return std::tuple(distance(i), -i.size, -(i.lower + i.lifetime)); });
    case Priority::PEAK_LIFETIME:
      return sorted(sections, [&](const Item& i) { return std::tuple(distance(i), -i.lifetime); });
    case Priority::CLASS_PEAK_LIFETIME:
      return sorted(sections, [&](const Item& i) {
        return std::tuple(-std::bit_width(static_cast<uint64_t>(i.size)), distance(i), -i.lifetime);
      });
    case Priority::BIRTH:
      break;
  }
  return sorted(sections, [](const Item& i) { return std::tuple(i.lower, -i.size); });
}

Placer::Placer(const Sections& sections) : sections_(sections), offsets_(sections.items.size(), NOT_PLACED) {}

void Placer::find_extra(int32_t item) {
  extra_.clear();
  if (sections_.extra.empty()) return;
  for (const int32_t other : sections_.extra[static_cast<size_t>(item)]) {
    const int64_t offset = offsets_[static_cast<size_t>(other)];
    if (offset != NOT_PLACED)
      extra_.push_back({offset, offset + sections_.items[static_cast<size_t>(other)].size});
  }
  std::sort(extra_.begin(), extra_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
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
