#include "graph/packing/exact.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tr::packing {

ExactSearch::ExactSearch(const Sections& sections)
    : sections_(sections),
      neighbours_(sections.items.size()),
      by_birth_(sections.items.size()),
      rank_(sections.items.size()),
      lowest_(sections.load.size()) {
  std::iota(by_birth_.begin(), by_birth_.end(), 0);
  std::stable_sort(by_birth_.begin(), by_birth_.end(),
                   [&](int32_t a, int32_t b) { return item(a).first < item(b).first; });
  for (size_t i = 0; i < by_birth_.size(); ++i)
    for (size_t j = i + 1; j < by_birth_.size() && item(by_birth_[j]).first <= item(by_birth_[i]).last; ++j) {
      neighbours_[static_cast<size_t>(by_birth_[i])].push_back(by_birth_[j]);
      neighbours_[static_cast<size_t>(by_birth_[j])].push_back(by_birth_[i]);
    }
  for (size_t i = 0; i < sections.extra.size(); ++i)
    neighbours_[i].insert(neighbours_[i].end(), sections.extra[i].begin(), sections.extra[i].end());
}

Verdict ExactSearch::run(int64_t capacity, const Order& priority, int64_t most_nodes) {
  for (size_t i = 0; i < priority.size(); ++i)
    rank_[static_cast<size_t>(priority[i])] = static_cast<int32_t>(i);
  is_placed_.assign(priority.size(), 0);
  floor_.assign(priority.size(), 0);
  unplaced_ = sections_.load;
  raised_.clear();
  placed_.clear();
  capacity_ = capacity;
  nodes_ = 0;
  most_nodes_ = most_nodes;
  if (fill_parts(by_birth_, {0, -1})) return Verdict::FOUND;
  return nodes_ > most_nodes_ ? Verdict::CUT : Verdict::NONE;
}

bool ExactSearch::is_hopeless(const Order& members, int64_t front) {
  for (const int32_t index : members) {
    const Item& it = item(index);
    std::fill(lowest_.begin() + it.first, lowest_.begin() + it.last + 1, std::numeric_limits<int64_t>::max());
  }
  for (const int32_t index : members) {
    const Item& it = item(index);
    const int64_t start = std::max(floor(index), front);
    if (start + it.size > capacity_) return true;
    for (int32_t s = it.first; s <= it.last; ++s)
      lowest_[static_cast<size_t>(s)] = std::min(lowest_[static_cast<size_t>(s)], start);
  }
  for (const int32_t index : members)
    for (int32_t s = item(index).first; s <= item(index).last; ++s)
      if (lowest_[static_cast<size_t>(s)] + unplaced_[static_cast<size_t>(s)] > capacity_) return true;
  return false;
}

Order ExactSearch::candidates(const Order& members, Front front) const {
  int64_t hole = std::numeric_limits<int64_t>::max();  // the lowest height under which an unplaced item fits
  for (const int32_t index : members) hole = std::min(hole, floor(index) + item(index).size);
  Order list;
  for (const int32_t index : members) {
    const int64_t start = floor(index);
    if (start < hole && (start > front.offset || (start == front.offset && rank(index) > front.rank)))
      list.push_back(index);
  }
  std::sort(list.begin(), list.end(), [&](int32_t a, int32_t b) {
    return floor(a) != floor(b) ? floor(a) < floor(b) : rank(a) < rank(b);
  });
  return list;
}

void ExactSearch::place(int32_t index) {
  const Item& it = item(index);
  const int64_t end = floor(index) + it.size;
  is_placed_[static_cast<size_t>(index)] = 1;
  placed_.push_back(index);
  for (int32_t s = it.first; s <= it.last; ++s) unplaced_[static_cast<size_t>(s)] -= it.size;
  for (const int32_t other : neighbours_[static_cast<size_t>(index)]) {
    if (is_placed_[static_cast<size_t>(other)] || floor(other) >= end) continue;
    raised_.push_back({other, floor(other)});
    floor(other) = end;
  }
}

void ExactSearch::undo(Mark mark) {
  for (; raised_.size() > mark.raised; raised_.pop_back()) floor(raised_.back().item) = raised_.back().from;
  for (; placed_.size() > mark.placed; placed_.pop_back()) {
    const Item& it = item(placed_.back());
    is_placed_[static_cast<size_t>(placed_.back())] = 0;
    for (int32_t s = it.first; s <= it.last; ++s) unplaced_[static_cast<size_t>(s)] += it.size;
  }
}

bool ExactSearch::fill(const Order& members, Front front) {
  if (++nodes_ > most_nodes_) return false;
  const Order next = candidates(members, front);
  // Nothing starts below the lowest candidate any more.
  if (next.empty() || is_hopeless(members, floor(next.front()))) return false;
  const Mark mark{raised_.size(), placed_.size()};
  Order rest;
  for (const int32_t index : next) {
    place(index);
    rest.clear();
    std::copy_if(members.begin(), members.end(), std::back_inserter(rest),
                 [&](int32_t other) { return other != index; });
    if (fill_parts(rest, {floor(index), rank(index)})) return true;
    undo(mark);
    if (nodes_ > most_nodes_) return false;
  }
  return false;
}

bool ExactSearch::fill_parts(const Order& members, Front front) {
  if (members.empty()) return true;
  // An extra conflict may tie items of different times together.
  if (!sections_.extra.empty()) return fill(members, front);
  const Mark mark{raised_.size(), placed_.size()};
  Order part;
  int32_t last = -1;
  for (size_t i = 0; i <= members.size(); ++i) {
    const bool ends = i == members.size() || (!part.empty() && item(members[i]).first > last);
    if (ends && !fill(part, front)) {
      undo(mark);
      return false;
    }
    if (i == members.size()) break;
    if (ends) part.clear();
    part.push_back(members[i]);
    last = std::max(last, item(members[i]).last);
  }
  return true;
}

}  // namespace tr::packing
