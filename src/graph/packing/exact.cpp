#include "graph/packing/exact.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tr::packing {

namespace {

constexpr int32_t CLOSE = -1;  // a case that is no item
constexpr int32_t NO_VALLEY = -1;
constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();
constexpr int64_t ITEMS_PER_STEP = 4;
constexpr int64_t PRECISION = 1'000;

}  // namespace

ExactSearch::ExactSearch(const Sections& sections)
    : sections_(sections),
      alive_(sections.load.size()),
      neighbours_(sections.items.size()),
      by_birth_(sections.items.size()),
      first_birth_(sections.load.size() + 1),
      preference_(sections.items.size()),
      weight_(sections.load.size(), 1),
      is_dirty_(sections.load.size()),
      valley_of_(sections.load.size()),
      count_(sections.load.size()),
      ending_(sections.load.size()),
      beginning_(sections.load.size()),
      beside_extra_(sections.load.size()) {
  std::iota(by_birth_.begin(), by_birth_.end(), 0);
  std::stable_sort(by_birth_.begin(), by_birth_.end(),
                   [&](int32_t a, int32_t b) { return item(a).first < item(b).first; });
  for (size_t i = 0; i < by_birth_.size(); ++i) {
    const int32_t index = by_birth_[i];
    ++first_birth_[at(item(index).first) + 1];
    step_ = std::gcd(step_, item(index).size);
    for (int32_t s = item(index).first; s <= item(index).last; ++s) alive_[at(s)].push_back(index);
    for (size_t j = i + 1; j < by_birth_.size() && item(by_birth_[j]).first <= item(index).last; ++j) {
      neighbours_[at(index)].push_back(by_birth_[j]);
      neighbours_[at(by_birth_[j])].push_back(index);
    }
  }
  std::partial_sum(first_birth_.begin(), first_birth_.end(), first_birth_.begin());
}

void ExactSearch::reset() {
  is_placed_.assign(sections_.items.size(), 0);
  floor_.assign(sections_.items.size(), 0);
  height_.assign(sections_.load.size(), 0);
  is_closed_.assign(sections_.load.size(), 0);
  unplaced_ = sections_.load;
  changes_.clear();
  parts_.clear();
  frames_.clear();
  cases_.clear();
}

/// Finds the section with the fewest cases for its weight; false when one has none.
bool ExactSearch::choose(Frame& frame) {
  frame.change_count = changes_.size();
  frame.part_count = parts_.size();
  find_valleys(frame.part);
  count_cases(frame.part);
  int64_t fewest = NEVER;
  for (const Valley& valley : valleys_)
    if (!compare_cases(valley, frame, fewest)) return false;
  list_cases(frame);
  return true;
}

void ExactSearch::find_valleys(const Part& part) {
  valleys_.clear();
  const auto height = [&](int32_t s) {
    return s < part.begin || s > part.end || unplaced_[at(s)] == 0 ? NEVER : height_[at(s)];
  };
  for (int32_t begin = part.begin, end = begin; begin <= part.end; begin = end + 1) {
    end = begin;
    while (end < part.end && height(end + 1) == height(begin)) ++end;
    const Valley valley{begin, end, height(begin), std::min(height(begin - 1), height(end + 1))};
    const bool is_valley = valley.height < valley.wall;
    for (int32_t s = begin; s <= end; ++s) {
      valley_of_[at(s)] = is_valley ? static_cast<int32_t>(valleys_.size()) : NO_VALLEY;
      count_[at(s)] = 0;
      ending_[at(s)] = beginning_[at(s)] = beside_extra_[at(s)] = NEVER;
    }
    if (is_valley) valleys_.push_back(valley);
  }
}

void ExactSearch::count_cases(const Part& part) {
  steps_ += part.end - part.begin + 1;
  steps_ += static_cast<int64_t>(first_birth_[at(part.end) + 1] - first_birth_[at(part.begin)]);
  for (size_t i = first_birth_[at(part.begin)]; i < first_birth_[at(part.end) + 1]; ++i) {
    const int32_t index = by_birth_[i];
    const Item& it = item(index);
    const int32_t valley = valley_of_[at(it.first)];
    if (is_placed_[at(index)] || valley == NO_VALLEY || valley != valley_of_[at(it.last)]) continue;
    ending_[at(it.last)] = std::min(ending_[at(it.last)], it.size);
    beginning_[at(it.first)] = std::min(beginning_[at(it.first)], it.size);
    if (can_start(index))
      for (int32_t s = it.first; s <= it.last; ++s) ++count_[at(s)];
    if (sections_.extra.empty() || sections_.extra[at(index)].empty()) continue;
    const int64_t level = level_beside_extra(index);
    for (int32_t s = it.first; s <= it.last; ++s)
      beside_extra_[at(s)] = std::min(beside_extra_[at(s)], level);
  }
}

/// What lies at the bottom of a valley must rest on something; to start anywhere else than at its height,
/// beside an extra conflict alone is left.
bool ExactSearch::can_start(int32_t index) const {
  const Item& it = item(index);
  const int64_t floor = floor_[at(index)];
  bool rests = floor == 0;
  for (int32_t s = it.first; s <= it.last && !rests; ++s) rests = !is_closed_[at(s)];
  if (sections_.extra.empty() || sections_.extra[at(index)].empty()) return rests;
  const auto& extra = sections_.extra[at(index)];
  return std::none_of(extra.begin(), extra.end(), [&](int32_t other) {
    return is_placed_[at(other)] && floor_[at(other)] < floor + it.size &&
           floor_[at(other)] + item(other).size > floor;
  });
}

/// The lowest level over its floor at which an item may rest on an extra conflict.
int64_t ExactSearch::level_beside_extra(int32_t index) const {
  const int64_t floor = floor_[at(index)];
  int64_t level = NEVER;
  for (const int32_t other : sections_.extra[at(index)]) {
    const int64_t end = floor_[at(other)] + item(other).size;
    if (end > floor)
      level = std::min(level, end);
    else if (!is_placed_[at(other)])
      level = std::min(level, floor + step_);
  }
  return level;
}

/// Whether all sections of a valley have a case; notes the one that is the best to choose. When nothing
/// starts at a section's height, the next item there extends over a wall, or rests on an item that does not
/// live in this section or is an extra conflict.
bool ExactSearch::compare_cases(const Valley& valley, Frame& frame, int64_t& fewest) {
  int64_t later = NEVER;  // size of the smallest item that begins in a later section of the valley
  for (int32_t s = valley.end; s >= valley.begin; --s) {
    const int64_t begins_here = beginning_[at(s)];
    beginning_[at(s)] = later;
    later = std::min(later, begins_here);
  }
  int64_t earlier = NEVER;
  for (int32_t s = valley.begin; s <= valley.end; ++s) {
    const int64_t smallest = std::min(earlier, beginning_[at(s)]);
    earlier = std::min(earlier, ending_[at(s)]);
    int64_t next = std::min(valley.wall, beside_extra_[at(s)]);
    if (smallest != NEVER) next = std::min(next, valley.height + smallest);
    const bool can_close = next - valley.height <= slack(at(s));
    const int64_t cases = count_[at(s)] + (can_close ? 1 : 0);
    if (cases == 0) {
      ++weight_[at(s)];
      return false;
    }
    // Thousandths of cases, which is as exact as a rule of thumb has to be.
    const int64_t weighted = cases * PRECISION / weight_[at(s)];
    if (weighted > fewest || (weighted == fewest && slack(at(s)) >= slack(at(frame.section)))) continue;
    fewest = weighted;
    frame.section = s;
    frame.closed_to = can_close ? next : NEVER;
  }
  return true;
}

bool ExactSearch::is_equal(int32_t a, int32_t b) const {
  const Item &x = item(a), &y = item(b);
  return x.size == y.size && x.first == y.first && x.last == y.last &&
         (sections_.extra.empty() || (sections_.extra[at(a)].empty() && sections_.extra[at(b)].empty()));
}

void ExactSearch::list_cases(Frame& frame) {
  frame.next_case = cases_.size();
  const int32_t valley = valley_of_[at(frame.section)];
  for (const int32_t index : alive_[at(frame.section)])
    if (!is_placed_[at(index)] && valley_of_[at(item(index).first)] == valley &&
        valley_of_[at(item(index).last)] == valley && can_start(index))
      cases_.push_back(index);
  const auto begin = cases_.begin() + static_cast<std::ptrdiff_t>(frame.next_case);
  std::sort(begin, cases_.end(), [&](int32_t a, int32_t b) {
    const int64_t x = preference_[at(a)], y = preference_[at(b)];
    return x != y ? x > y : a < b;
  });
  auto end = begin;
  for (auto next = begin; next != cases_.end(); ++next)
    if (std::none_of(begin, end, [&](int32_t earlier) { return is_equal(earlier, *next); })) *end++ = *next;
  cases_.erase(end, cases_.end());
  if (frame.closed_to != NEVER) cases_.push_back(CLOSE);
  frame.last_case = cases_.size();
}

bool ExactSearch::take_case(const Frame& frame, int32_t chosen) {
  const bool fits = chosen == CLOSE ? close(frame.section, frame.closed_to) : place(chosen);
  return settle() && fits;
}

bool ExactSearch::place(int32_t index) {
  const Item& it = item(index);
  const int64_t end = floor_[at(index)] + it.size;
  is_placed_[at(index)] = 1;
  changes_.push_back({Change::PLACEMENT, index, 0, false});
  for (int32_t s = it.first; s <= it.last; ++s) {
    unplaced_[at(s)] -= it.size;
    set_height(s, end, false);
  }
  mark_dirty(index);
  bool fits = true;
  steps_ += static_cast<int64_t>(neighbours_[at(index)].size()) / ITEMS_PER_STEP;
  for (const int32_t other : neighbours_[at(index)])
    if (!is_placed_[at(other)]) fits = raise_floor(other, end) && fits;
  return fits;
}

bool ExactSearch::close(int32_t section, int64_t height) {
  set_height(section, height, true);
  bool fits = true;
  for (const int32_t index : alive_[at(section)])
    if (!is_placed_[at(index)]) fits = raise_floor(index, height) && fits;
  return fits;
}

bool ExactSearch::raise_floor(int32_t index, int64_t floor) {
  if (floor_[at(index)] >= floor) return true;
  changes_.push_back({Change::FLOOR, index, floor_[at(index)], false});
  floor_[at(index)] = floor;
  mark_dirty(index);
  const Item& it = item(index);
  if (floor + it.size <= capacity_) return true;
  for (int32_t s = it.first; s <= it.last; ++s)
    if (height_[at(s)] == floor) ++weight_[at(s)];
  return false;
}

/// Closes the sections of raised floors up to the lowest of them.
bool ExactSearch::settle() {
  bool fits = true;
  for (const int32_t section : dirty_) {
    is_dirty_[at(section)] = 0;
    if (unplaced_[at(section)] == 0 || !fits) continue;
    int64_t lowest = NEVER;
    steps_ += static_cast<int64_t>(alive_[at(section)].size()) / ITEMS_PER_STEP;
    for (const int32_t index : alive_[at(section)])
      if (!is_placed_[at(index)]) lowest = std::min(lowest, floor_[at(index)]);
    if (lowest > height_[at(section)]) set_height(section, lowest, true);
    if (slack(at(section)) >= 0) continue;
    ++weight_[at(section)];
    fits = false;
  }
  dirty_.clear();
  return fits;
}

void ExactSearch::set_height(int32_t section, int64_t height, bool is_closed) {
  changes_.push_back({Change::HEIGHT, section, height_[at(section)], is_closed_[at(section)] != 0});
  height_[at(section)] = height;
  is_closed_[at(section)] = is_closed ? 1 : 0;
}

void ExactSearch::mark_dirty(int32_t index) {
  for (int32_t s = item(index).first; s <= item(index).last; ++s) {
    if (is_dirty_[at(s)]) continue;
    is_dirty_[at(s)] = 1;
    dirty_.push_back(s);
  }
}

void ExactSearch::undo(size_t change_count) {
  for (; changes_.size() > change_count; changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.kind == Change::FLOOR) {
      floor_[at(change.index)] = change.value;
    } else if (change.kind == Change::HEIGHT) {
      height_[at(change.index)] = change.value;
      is_closed_[at(change.index)] = change.is_closed ? 1 : 0;
    } else {
      const Item& it = item(change.index);
      is_placed_[at(change.index)] = 0;
      for (int32_t s = it.first; s <= it.last; ++s) unplaced_[at(s)] += it.size;
    }
  }
}

}  // namespace tr::packing
