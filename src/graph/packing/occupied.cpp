#include "graph/packing/occupied.h"

#include <algorithm>
#include <limits>

namespace tr::packing {

namespace {

constexpr int64_t STEPS_PER_GROUP_WALKED = 5;

}  // namespace

Occupied::Block::Block() : earliest(std::numeric_limits<int32_t>::max()), latest(-1) {
  first.fill(std::numeric_limits<int32_t>::max());
  last.fill(-1);
}

void Occupied::Block::put(size_t place, int32_t from, int32_t to, Span span) {
  const auto shift = [&](auto& list) {
    std::move_backward(list.begin() + static_cast<std::ptrdiff_t>(place),
                       list.begin() + static_cast<std::ptrdiff_t>(count),
                       list.begin() + static_cast<std::ptrdiff_t>(count) + 1);
  };
  shift(first);
  shift(last);
  shift(bytes);
  first[place] = from;
  last[place] = to;
  bytes[place] = span;
  ++count;
  earliest = std::min(earliest, from);
  latest = std::max(latest, to);
}

bool Occupied::Block::has_any(size_t group, int32_t from, int32_t to) const {
  int any = 0;
  for (size_t i = group; i < group + GROUP; ++i)
    any |= static_cast<int>(first[i] <= to) & static_cast<int>(last[i] >= from);
  return any != 0;
}

void Occupied::clear() {
  blocks_.clear();
  order_.clear();
}

void Occupied::split(size_t place) {
  const Block full = blocks_[order_[place]];
  Block halves[2];
  for (size_t i = 0; i < CAPACITY; ++i) {
    Block& half = halves[i / (CAPACITY / 2)];
    half.put(half.count, full.first[i], full.last[i], full.bytes[i]);
  }
  blocks_[order_[place]] = halves[0];
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place) + 1, blocks_.size());
  blocks_.push_back(halves[1]);
}

void Occupied::take(int32_t first, int32_t last, Span bytes) {
  if (order_.empty()) {
    order_.push_back(0);
    blocks_.emplace_back();
  }
  const auto place_of = [&] {
    const auto above =
        std::upper_bound(order_.begin() + 1, order_.end(), bytes.begin,
                         [&](int64_t begin, size_t block) { return begin < blocks_[block].bytes[0].begin; });
    return static_cast<size_t>(above - order_.begin()) - 1;
  };
  size_t place = place_of();
  if (blocks_[order_[place]].count == CAPACITY) {
    split(place);
    place = place_of();
  }
  Block& block = blocks_[order_[place]];
  const auto end = block.bytes.begin() + static_cast<std::ptrdiff_t>(block.count);
  const auto above = std::upper_bound(block.bytes.begin(), end, bytes.begin,
                                      [](int64_t begin, const Span& span) { return begin < span.begin; });
  block.put(static_cast<size_t>(above - block.bytes.begin()), first, last, bytes);
}

template <typename Visit>
void Occupied::visit_all(int32_t first, int32_t last, const std::vector<Span>& more, const Visit& visit) {
  size_t next = 0;
  std::array<Span, GROUP> meeting;
  for (const size_t index : order_) {
    const Block& block = blocks_[index];
    ++steps_;
    if (block.earliest > last || block.latest < first) continue;
    for (size_t group = 0; group < block.count; group += GROUP) {
      ++steps_;
      if (!block.has_any(group, first, last)) continue;
      steps_ += STEPS_PER_GROUP_WALKED;
      // Collected without branches first, which no processor could foretell.
      size_t count = 0;
      for (size_t i = group; i < group + GROUP; ++i) {
        meeting[count] = block.bytes[i];
        count += static_cast<size_t>(block.first[i] <= last) & static_cast<size_t>(block.last[i] >= first);
      }
      for (size_t i = 0; i < count; ++i) {
        for (; next < more.size() && more[next].begin < meeting[i].begin; ++next)
          if (visit(more[next])) return;
        if (visit(meeting[i])) return;
      }
    }
  }
  for (; next < more.size(); ++next)
    if (visit(more[next])) return;
}

int64_t Occupied::first_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more) {
  int64_t top = 0;
  visit_all(first, last, more, [&](const Span& span) {
    if (span.begin - top >= size) return true;
    top = std::max(top, span.end);
    return false;
  });
  return top;
}

int64_t Occupied::best_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more) {
  int64_t top = 0, best = -1, least_spare = std::numeric_limits<int64_t>::max();
  visit_all(first, last, more, [&](const Span& span) {
    const int64_t spare = span.begin - top - size;
    if (spare >= 0 && spare < least_spare) {
      least_spare = spare;
      best = top;
    }
    top = std::max(top, span.end);
    return false;
  });
  return best < 0 ? top : best;
}

}  // namespace tr::packing
