#include "graph/packing/skyline.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tr::packing {

namespace {

constexpr int64_t STEPS_PER_GROUP_RAISED = 5;
constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();

/// The items that wait for their place, by priority, each with the lowest offset it can start at. After a
/// placement all that meet the new item are raised, sixteen at a time where any does.
class Waiting {
 public:
  Waiting(const Sections& sections, const Order& priority)
      : groups_((priority.size() + GROUP - 1) / GROUP), lowest_(groups_.size(), 0) {
    for (size_t rank = 0; rank < priority.size(); ++rank) {
      const Item& item = sections.items[static_cast<size_t>(priority[rank])];
      Group& group = groups_[rank / GROUP];
      group.first[rank % GROUP] = item.first;
      group.last[rank % GROUP] = item.last;
      group.floor[rank % GROUP] = 0;
    }
  }

  /// Rank of the one that can start lowest, the earliest of equals.
  size_t lowest() const {
    const auto best = std::min_element(lowest_.begin(), lowest_.end());
    const auto group = static_cast<size_t>(best - lowest_.begin());
    const auto& floor = groups_[group].floor;
    return group * GROUP + static_cast<size_t>(std::find(floor.begin(), floor.end(), *best) - floor.begin());
  }

  int64_t floor(size_t rank) const { return groups_[rank / GROUP].floor[rank % GROUP]; }

  void remove(size_t rank) {
    Group& group = groups_[rank / GROUP];
    group.first[rank % GROUP] = NO_FIRST;
    group.last[rank % GROUP] = NO_LAST;
    group.floor[rank % GROUP] = NEVER;
    lowest_[rank / GROUP] = group.lowest();
  }

  void raise(size_t rank, int64_t floor) {
    Group& group = groups_[rank / GROUP];
    if (group.floor[rank % GROUP] >= floor) return;
    group.floor[rank % GROUP] = floor;
    lowest_[rank / GROUP] = group.lowest();
  }

  /// Raises all that live in sections [first, last]; returns the steps it took.
  int64_t raise(int32_t first, int32_t last, int64_t floor) {
    auto steps = static_cast<int64_t>(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      if (!group.has_any(first, last)) continue;
      steps += STEPS_PER_GROUP_RAISED;
      int64_t lowest = NEVER;
      for (size_t i = 0; i < GROUP; ++i) {
        const auto meets =
            static_cast<int64_t>(group.first[i] <= last) & static_cast<int64_t>(group.last[i] >= first);
        group.floor[i] = std::max(group.floor[i], floor & -meets);
        lowest = std::min(lowest, group.floor[i]);
      }
      lowest_[g] = lowest;
    }
    return steps;
  }

 private:
  static constexpr size_t GROUP = 16;
  static constexpr int32_t NO_FIRST = std::numeric_limits<int32_t>::max(), NO_LAST = -1;
  struct Group {
    Group() {
      first.fill(NO_FIRST);
      last.fill(NO_LAST);
      floor.fill(NEVER);
    }
    bool has_any(int32_t from, int32_t to) const {
      int any = 0;
      for (size_t i = 0; i < GROUP; ++i)
        any |= static_cast<int>(first[i] <= to) & static_cast<int>(last[i] >= from);
      return any != 0;
    }
    int64_t lowest() const {
      int64_t least = NEVER;
      for (const int64_t value : floor) least = std::min(least, value);
      return least;
    }

    std::array<int32_t, GROUP> first, last;  // sections; of places without an item, none
    std::array<int64_t, GROUP> floor;
  };

  std::vector<Group> groups_;
  std::vector<int64_t> lowest_;  // floor, by group
};

}  // namespace

Order skyline_order(const Sections& sections, const Order& priority, Budget& budget) {
  Waiting waiting(sections, priority);
  std::vector<size_t> rank(priority.size());
  for (size_t i = 0; i < priority.size(); ++i) rank[static_cast<size_t>(priority[i])] = i;
  std::vector<char> is_placed(priority.size());
  Order order;
  order.reserve(priority.size());
  while (order.size() < priority.size() && !budget.is_spent()) {
    const size_t next = waiting.lowest();
    const int32_t index = priority[next];
    const Item& item = sections.items[static_cast<size_t>(index)];
    const int64_t end = waiting.floor(next) + item.size;
    order.push_back(index);
    is_placed[static_cast<size_t>(index)] = 1;
    waiting.remove(next);
    budget.left -= waiting.raise(item.first, item.last, end);
    if (sections.extra.empty()) continue;
    for (const int32_t other : sections.extra[static_cast<size_t>(index)])
      if (!is_placed[static_cast<size_t>(other)]) waiting.raise(rank[static_cast<size_t>(other)], end);
  }
  std::copy_if(priority.begin(), priority.end(), std::back_inserter(order),
               [&](int32_t index) { return !is_placed[static_cast<size_t>(index)]; });
  return order;
}

}  // namespace tr::packing
