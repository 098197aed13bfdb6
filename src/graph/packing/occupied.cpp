#include "graph/packing/occupied.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tr::packing {

namespace {

// Reading or moving spans one after the other is this much cheaper than coming to a node.
constexpr int64_t SPANS_PER_STEP = 4;
constexpr int64_t STEPS_PER_SORTED_SPAN = 4;

}  // namespace

Occupied::Occupied(size_t sections)
    : leaves_(static_cast<int32_t>(std::bit_ceil(std::max<size_t>(sections, 1)))),
      nodes_(2 * static_cast<size_t>(leaves_)) {}

void Occupied::clear() {
  for (Node& node : nodes_) {
    node.whole.clear();
    node.below.clear();
  }
}

void Occupied::add(Union& spans, Span span) {
  // Those that meet or touch the new one become one with it.
  const auto from = std::lower_bound(spans.begin(), spans.end(), span.begin,
                                     [](const Span& s, int64_t begin) { return s.end < begin; });
  auto to = from;
  while (to != spans.end() && to->begin <= span.end) ++to;
  steps_ += 1 + (spans.end() - to) / SPANS_PER_STEP;
  if (from == to) {
    spans.insert(from, span);
    return;
  }
  from->begin = std::min(from->begin, span.begin);
  from->end = std::max((to - 1)->end, span.end);
  spans.erase(from + 1, to);
}

void Occupied::take(int32_t first, int32_t last, Span bytes) { take(1, 0, leaves_, first, last + 1, bytes); }

void Occupied::take(size_t node, int32_t begin, int32_t end, int32_t first, int32_t last, Span bytes) {
  add(nodes_[node].below, bytes);
  if (first <= begin && end <= last) {
    add(nodes_[node].whole, bytes);
    return;
  }
  const int32_t middle = begin + (end - begin) / 2;
  if (first < middle) take(2 * node, begin, middle, first, last, bytes);
  if (middle < last) take(2 * node + 1, middle, end, first, last, bytes);
}

void Occupied::gather(const Union& spans) {
  if (!spans.empty()) found_.push_back({spans.data(), spans.data() + spans.size()});
}

void Occupied::gather(size_t node, int32_t begin, int32_t end, int32_t first, int32_t last) {
  ++steps_;
  if (nodes_[node].below.empty()) return;
  if (first <= begin && end <= last) return gather(nodes_[node].below);
  gather(nodes_[node].whole);
  const int32_t middle = begin + (end - begin) / 2;
  if (first < middle) gather(2 * node, begin, middle, first, last);
  if (middle < last) gather(2 * node + 1, middle, end, first, last);
}

void Occupied::gather_all(int32_t first, int32_t last) {
  found_.clear();
  gather(1, 0, leaves_, first, last + 1);
}

int64_t Occupied::first_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more) {
  gather_all(first, last);
  for (const Span& span : more) found_.push_back({&span, &span + 1});
  int64_t offset = 0;
  // Every union pushes the offset over what is in its way, until all agree.
  size_t agree = 0;
  for (size_t i = 0; agree < found_.size(); i = i + 1 == found_.size() ? 0 : i + 1) {
    Cursor& cursor = found_[i];
    const Span* const from = cursor.next;
    while (cursor.next != cursor.end && cursor.next->end <= offset) ++cursor.next;
    const int64_t before = offset;
    while (cursor.next != cursor.end && cursor.next->begin < offset + size) offset = (cursor.next++)->end;
    agree = offset == before ? agree + 1 : 1;
    steps_ += 1 + (cursor.next - from) / SPANS_PER_STEP;
  }
  return offset;
}

int64_t Occupied::best_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more) {
  gather_all(first, last);
  merged_.assign(more.begin(), more.end());
  for (const Cursor& cursor : found_) merged_.insert(merged_.end(), cursor.next, cursor.end);
  std::sort(merged_.begin(), merged_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  steps_ += static_cast<int64_t>(merged_.size()) * STEPS_PER_SORTED_SPAN;
  int64_t top = 0, best = -1, least_spare = std::numeric_limits<int64_t>::max();
  for (const Span& span : merged_) {
    const int64_t spare = span.begin - top - size;
    if (spare >= 0 && spare < least_spare) {
      least_spare = spare;
      best = top;
    }
    top = std::max(top, span.end);
  }
  return best < 0 ? top : best;
}

}  // namespace tr::packing
