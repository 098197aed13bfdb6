#include "graph/packing/skyline.h"

#include <algorithm>
#include <bit>

namespace tr::packing {

RangeMax::RangeMax(size_t size)
    : leaves_(std::bit_ceil(std::max<size_t>(size, 1))),
      largest_(2 * leaves_ + 1),
      raised_(2 * leaves_ + 1) {}

void RangeMax::raise(int32_t first, int32_t last, int64_t value) {
  const size_t begin = leaves_ + static_cast<size_t>(first), end = leaves_ + static_cast<size_t>(last);
  const auto raise_node = [&](size_t node) {
    largest_[node] = std::max(largest_[node], value);
    raised_[node] = std::max(raised_[node], value);
  };
  for (size_t left = begin, right = end + 1; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) raise_node(left++);
    if (right % 2 == 1) raise_node(--right);
  }
  // A value over part of a node's leaves is one over the node: all ancestors of the two ends hold a part.
  for (size_t left = begin / 2, right = end / 2; left >= 1; left /= 2, right /= 2) {
    largest_[left] = std::max(largest_[left], value);
    largest_[right] = std::max(largest_[right], value);
  }
}

int64_t RangeMax::largest(int32_t first, int32_t last) const {
  const size_t begin = leaves_ + static_cast<size_t>(first), end = leaves_ + static_cast<size_t>(last);
  int64_t result = 0;
  // Without branches on left and right, which no processor could foretell.
  for (size_t left = begin, right = end + 1; left < right; left /= 2, right /= 2) {
    const size_t left_is_odd = left % 2, right_is_odd = right % 2;
    right -= right_is_odd;
    result = std::max({result, largest_[left] & -static_cast<int64_t>(left_is_odd),
                       largest_[right] & -static_cast<int64_t>(right_is_odd)});
    left += left_is_odd;
  }
  for (size_t left = begin / 2, right = end / 2; left >= 1; left /= 2, right /= 2)
    result = std::max({result, raised_[left], raised_[right]});
  return result;
}

namespace {

constexpr int64_t STEPS_PER_LOOK = 12;

/// An item that waits for its place.
struct Candidate {
  int64_t floor;  ///< where it could start when last looked at; rises only
  int32_t rank;
  /// Without branches, as the heap spends its time here.
  bool operator<(const Candidate& other) const {
    const int less = floor < other.floor, equal = floor == other.floor, earlier = rank < other.rank;
    return (less | (equal & earlier)) != 0;
  }
};

/// Smallest first: a heap whose top can be replaced in place, which most looks end with.
class Waiting {
 public:
  explicit Waiting(size_t count) {
    for (size_t rank = 0; rank < count; ++rank) heap_.push_back({0, static_cast<int32_t>(rank)});
  }
  bool empty() const { return heap_.empty(); }
  Candidate top() const { return heap_.front(); }
  void pop() {
    const Candidate last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) replace_top(last);
  }
  void replace_top(Candidate candidate) {
    size_t place = 0;
    for (size_t child = 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size()) child += static_cast<size_t>(heap_[child + 1] < heap_[child]);
      if (!(heap_[child] < candidate)) break;
      heap_[place] = heap_[child];
      place = child;
    }
    heap_[place] = candidate;
  }
  /// What still waits, by rank.
  std::vector<int32_t> ranks() const {
    std::vector<int32_t> list;
    for (const Candidate& candidate : heap_) list.push_back(candidate.rank);
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  std::vector<Candidate> heap_;
};

}  // namespace

Order skyline_order(const Sections& sections, const Order& priority, int64_t most_looks, Budget& budget) {
  Waiting waiting(priority.size());
  RangeMax skyline(sections.load.size());
  std::vector<int64_t> extra_floor(sections.extra.size());
  Order order;
  order.reserve(priority.size());
  for (int64_t look = 0; !waiting.empty() && look < most_looks && !budget.is_spent(); ++look) {
    budget.left -= STEPS_PER_LOOK;
    const Candidate next = waiting.top();
    const int32_t index = priority[static_cast<size_t>(next.rank)];
    const Item& item = sections.items[static_cast<size_t>(index)];
    int64_t floor = skyline.largest(item.first, item.last);
    if (!sections.extra.empty()) floor = std::max(floor, extra_floor[static_cast<size_t>(index)]);
    if (floor > next.floor) {
      waiting.replace_top({floor, next.rank});
      continue;
    }
    waiting.pop();
    order.push_back(index);
    skyline.raise(item.first, item.last, floor + item.size);
    if (sections.extra.empty()) continue;
    for (const int32_t other : sections.extra[static_cast<size_t>(index)])
      extra_floor[static_cast<size_t>(other)] =
          std::max(extra_floor[static_cast<size_t>(other)], floor + item.size);
  }
  for (const int32_t rank : waiting.ranks()) order.push_back(priority[static_cast<size_t>(rank)]);
  return order;
}

}  // namespace tr::packing
