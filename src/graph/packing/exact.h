/// The exhaustive search: is there a packing within a capacity?
#pragma once

#include <vector>

#include "graph/packing/placement.h"

namespace tr::packing {

enum class Verdict {
  FOUND,
  NONE,  ///< shown: no packing fits
  CUT,   ///< the nodes were used up before an answer
};

/// Branch and bound over packings that are pushed down as far as they go, built by rising offset. Every item
/// of such a packing rests on the ground or on an item it conflicts with, so the next one goes on top of what
/// is placed at its sections. Cut off are: items above a hole that another unplaced item fits (it would have
/// been pushed down); orders of equal offsets other than by rank; sections whose unplaced items reach over
/// the capacity from the lowest place any of them can start. Times that no unplaced item spans split the rest
/// into independent problems.
class ExactSearch {
 public:
  explicit ExactSearch(const Sections& sections);

  /// Of items that can start equally low, the first in `priority` is tried first.
  Verdict run(int64_t capacity, const Order& priority, int64_t most_nodes);
  /// After FOUND.
  const std::vector<int64_t>& offsets() const { return floor_; }
  int64_t nodes() const { return nodes_; }

 private:
  struct Raise {
    int32_t item;
    int64_t from;
  };
  /// The packing as far as it is built: the last item's offset and rank.
  struct Front {
    int64_t offset;
    int32_t rank;
  };
  struct Mark {
    size_t raised, placed;
  };

  bool fill(const Order& members, Front front);
  bool fill_parts(const Order& members, Front front);
  bool is_hopeless(const Order& members, int64_t front);
  Order candidates(const Order& members, Front front) const;
  void place(int32_t index);
  void undo(Mark mark);

  const Item& item(int32_t index) const { return sections_.items[static_cast<size_t>(index)]; }
  int64_t& floor(int32_t index) { return floor_[static_cast<size_t>(index)]; }
  int64_t floor(int32_t index) const { return floor_[static_cast<size_t>(index)]; }
  int32_t rank(int32_t index) const { return rank_[static_cast<size_t>(index)]; }

  const Sections& sections_;
  std::vector<std::vector<int32_t>> neighbours_;
  Order by_birth_;
  std::vector<int32_t> rank_;
  std::vector<char> is_placed_;
  std::vector<int64_t> floor_;     ///< where an item could start at the lowest; of a placed one, its offset
  std::vector<int64_t> unplaced_;  ///< by section: sum of sizes still to place
  std::vector<int64_t> lowest_;    ///< by section: where the first of them can start
  std::vector<Raise> raised_;
  std::vector<int32_t> placed_;
  int64_t capacity_ = 0, nodes_ = 0, most_nodes_ = 0;
};

}  // namespace tr::packing
