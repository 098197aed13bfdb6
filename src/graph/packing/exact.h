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

/// Branch and bound over packings that are pushed down as far as they go: every item rests on the ground or
/// on an item it conflicts with.
///
/// The placed items make a skyline over the sections. A valley is a run of equal height between higher walls
/// (a section with nothing left to place is a wall). Of a section in a valley either one of the items that
/// fit between the walls is the next one up and starts at the valley's height, or nothing starts there; then
/// the section is closed up to the lowest level at which anything could rest. These are all cases, wherever
/// the section is, so the one with the fewest is taken: fewest for its weight, which counts the dead ends it
/// caused of late (dom/wdeg: Boussemart, Hemery, Lecoutre, Sais, ECAI 2004). Cut off are: sections whose
/// closed and unplaced bytes exceed the capacity, with each section closed up to where its items can start;
/// items that rest on closed bytes only; the second of two equal items. Sections without unplaced items split
/// the rest into independent parts. Which case is tried first is drawn anew for each restart; restarts are as
/// long as the series of Luby, Sinclair, Zuckerman (1993) says.
class ExactSearch {
 public:
  explicit ExactSearch(const Sections& sections);

  /// Stops at either limit. Weights of dead ends stay from run to run, whatever the capacity.
  Verdict run(int64_t capacity, int64_t most_nodes, int64_t most_steps);
  /// After FOUND.
  const std::vector<int64_t>& offsets() const { return floor_; }
  /// Choices made by the last run.
  int64_t nodes() const { return nodes_; }
  /// Work done by the last run, about 5 ns each.
  int64_t steps() const { return steps_; }

 private:
  /// What is undone on the way back.
  struct Change {
    enum Kind { FLOOR, HEIGHT, PLACEMENT } kind;
    int32_t index;  ///< item, or section of a height
    int64_t value;
    bool is_closed;
  };
  /// Sections [begin, end] that share no unplaced item with others. When nothing fits there, the frame
  /// `owner` has to try its next case.
  struct Part {
    int32_t begin = 0, end = -1;
    int32_t owner = -1;
    int32_t next = -1;  ///< the part to fill after this one
  };
  /// A choice that was made: of the cases, those from `next_case` on are still to try.
  struct Frame {
    Part part;
    int32_t section = -1;
    int64_t closed_to = 0;
    size_t next_case = 0, last_case = 0;      ///< in cases_
    size_t change_count = 0, part_count = 0;  ///< before it
  };
  /// A run of equal height between two walls.
  struct Valley {
    int32_t begin, end;
    int64_t height, wall;  ///< the lower wall
  };

  void prefer(uint32_t restart);
  Verdict run_once(int64_t most_nodes, int64_t most_steps);
  void reset();
  int32_t advance(int32_t todo);
  int32_t split(Part part, int32_t owner);
  bool choose(Frame& frame);
  void find_valleys(const Part& part);
  void count_cases(const Part& part);
  bool compare_cases(const Valley& valley, Frame& frame, int64_t& fewest);
  void list_cases(Frame& frame);
  bool take_case(const Frame& frame, int32_t chosen);

  bool can_start(int32_t index) const;
  bool is_equal(int32_t a, int32_t b) const;
  int64_t level_beside_extra(int32_t index) const;
  bool place(int32_t index);
  bool close(int32_t section, int64_t height);
  bool raise_floor(int32_t index, int64_t floor);
  bool settle();
  void set_height(int32_t section, int64_t height, bool is_closed);
  void mark_dirty(int32_t index);
  void undo(size_t change_count);

  static size_t at(int32_t index) { return static_cast<size_t>(index); }
  const Item& item(int32_t index) const { return sections_.items[at(index)]; }
  int64_t slack(size_t section) const { return capacity_ - height_[section] - unplaced_[section]; }

  const Sections& sections_;
  std::vector<Order> alive_;       ///< by section
  std::vector<Order> neighbours_;  ///< items alive together, by item
  Order by_birth_;
  std::vector<size_t> first_birth_;  ///< by section, one more at the end: place in by_birth_
  int64_t step_ = 0;                 ///< all sizes are multiples of it, so offsets are

  int64_t capacity_ = 0, nodes_ = 0, steps_ = 0;
  std::vector<int64_t> preference_;  ///< by item
  std::vector<int64_t> weight_;      ///< by section

  std::vector<char> is_placed_;
  std::vector<int64_t> floor_;     ///< where an item could start at the lowest; of a placed one, its offset
  std::vector<int64_t> height_;    ///< by section: nothing unplaced starts lower
  std::vector<char> is_closed_;    ///< by section: what is right below the height
  std::vector<int64_t> unplaced_;  ///< by section: sum of sizes

  std::vector<Change> changes_;
  std::vector<Part> parts_;  ///< still to fill, a linked list
  std::vector<Frame> frames_;
  std::vector<int32_t> cases_;  ///< of all frames: items, or CLOSE
  std::vector<int32_t> dirty_;  ///< sections whose items' floors were raised
  std::vector<char> is_dirty_;  ///< by section

  // Of the choice being made.
  std::vector<Valley> valleys_;
  std::vector<int32_t> valley_of_;           ///< by section
  std::vector<int64_t> count_;               ///< by section: items that could start there
  std::vector<int64_t> ending_, beginning_;  ///< by section: the smallest item that ends or begins there
  std::vector<int64_t> beside_extra_;        ///< by section: where an item could rest on an extra conflict
};

}  // namespace tr::packing
