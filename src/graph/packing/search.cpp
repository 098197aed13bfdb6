// The order of the exhaustive search: restarts, and how it goes on and back. What it chooses from is in
// exact.cpp.
#include <algorithm>
#include <bit>

#include "graph/packing/exact.h"
#include "renaissance/core/philox.h"

namespace tr::packing {

namespace {

constexpr int32_t NO_FRAME = -1;
constexpr int32_t ALL_FILLED = -1, NOTHING_FITS = -2;  // instead of a part
constexpr size_t DESCENTS = 2;                         // of the shortest run, in nodes for each item
constexpr uint64_t SEED = 0x65786163;

/// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., from 1 on.
int64_t luby(uint64_t place) {
  for (;;) {
    const int bits = std::bit_width(place);
    if (place + 1 == uint64_t{1} << bits) return int64_t{1} << (bits - 1);
    place -= (uint64_t{1} << (bits - 1)) - 1;
  }
}

/// Logarithm to base 2 in units of 2^-16, linear between powers of two, the same on every machine.
int64_t log2_fixed(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  const int exponent = std::bit_width(bits) - 1;
  const uint64_t mantissa = exponent >= 16 ? bits >> (exponent - 16) : bits << (16 - exponent);
  return static_cast<int64_t>(mantissa) + (int64_t{exponent} - 1) * 65536;
}

}  // namespace

Verdict ExactSearch::run(int64_t capacity, int64_t most_nodes, int64_t most_steps) {
  capacity_ = capacity;
  nodes_ = steps_ = 0;
  if (capacity < sections_.lower_bound) return Verdict::NONE;
  const auto shortest = static_cast<int64_t>(DESCENTS * sections_.items.size());
  for (uint32_t restart = 1; nodes_ < most_nodes && steps_ < most_steps; ++restart) {
    prefer(restart);
    // Half is forgotten, or what was learned in one corner would lead back to it for ever.
    for (int64_t& weight : weight_) weight -= (weight - 1) / 2;
    const Verdict verdict = run_once(std::min(nodes_ + shortest * luby(restart), most_nodes), most_steps);
    if (verdict != Verdict::CUT) return verdict;
  }
  return Verdict::CUT;
}

/// A preference for size and number of sections, each to a power between -1/4 and 5/4.
void ExactSearch::prefer(uint32_t restart) {
  const auto random = Philox(SEED)(restart, 0, 0, 0);
  const int64_t for_size = int64_t{Philox::below(random[0], 97)} - 16;
  const int64_t for_length = int64_t{Philox::below(random[1], 97)} - 16;
  for (size_t i = 0; i < preference_.size(); ++i) {
    const Item& it = sections_.items[i];
    preference_[i] = for_size * log2_fixed(it.size) + for_length * log2_fixed(it.last - it.first + 1);
  }
}

Verdict ExactSearch::run_once(int64_t most_nodes, int64_t most_steps) {
  reset();
  int32_t todo = split({0, static_cast<int32_t>(height_.size()) - 1, NO_FRAME, ALL_FILLED}, NO_FRAME);
  while (todo >= 0) {
    if (++nodes_ > most_nodes || steps_ > most_steps) return Verdict::CUT;
    todo = advance(todo);
  }
  return todo == ALL_FILLED ? Verdict::FOUND : Verdict::NONE;
}

/// Makes the next choice, in the part `todo`, or goes back to the last one that has a case left. Returns the
/// part to go on with.
int32_t ExactSearch::advance(int32_t todo) {
  Frame frame;
  frame.part = parts_[at(todo)];
  int32_t current = frame.part.owner;
  if (choose(frame)) {
    current = static_cast<int32_t>(frames_.size());
    frames_.push_back(frame);
  }
  while (current != NO_FRAME) {
    frames_.resize(at(current) + 1);
    Frame& top = frames_.back();
    undo(top.change_count);
    parts_.resize(top.part_count);
    cases_.resize(top.last_case);
    if (top.next_case == top.last_case)
      current = top.part.owner;
    else if (take_case(top, cases_[top.next_case++]))
      return split(top.part, current);
  }
  return NOTHING_FITS;
}

/// Puts what is left of a part in front of the parts to fill and returns the first of them.
int32_t ExactSearch::split(Part part, int32_t owner) {
  int32_t first = part.next;
  for (int32_t s = part.begin, begin = -1; s <= part.end + 1; ++s) {
    const bool is_open = s <= part.end && unplaced_[at(s)] > 0;
    if (is_open && begin < 0) begin = s;
    // Extra conflicts may tie items of different times together: then all that is left is one part.
    const bool ends = sections_.extra.empty() ? !is_open : s > part.end;
    if (!ends || begin < 0) continue;
    parts_.push_back({begin, s - 1, owner, first});
    first = static_cast<int32_t>(parts_.size()) - 1;
    begin = -1;
  }
  return first;
}

}  // namespace tr::packing
