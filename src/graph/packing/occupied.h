/// Which bytes are taken at which sections, and where an item fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tr::packing {

struct Span {
  int64_t begin = 0, end = 0;
};

/// A segment tree over sections whose nodes hold unions of byte spans. Packings leave few holes, so that a
/// union is a few spans long however many items it covers; placing an item visits about 4 log2(sections)
/// nodes.
class Occupied {
 public:
  explicit Occupied(size_t sections);

  /// Forgets all spans, keeps the memory.
  void clear();
  /// Takes bytes in sections [first, last].
  void take(int32_t first, int32_t last, Span bytes);
  /// Lowest offset at which `size` bytes are free in sections [first, last] and beside the spans in `more`.
  int64_t first_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more);
  /// Start of the tightest hole that fits, the lowest of equals; above everything if none does.
  int64_t best_fit(int32_t first, int32_t last, int64_t size, const std::vector<Span>& more);

  /// Work done so far, in the same units on every machine: about 5 ns each.
  int64_t steps() const { return steps_; }

 private:
  /// Spans that neither meet nor touch, ascending.
  using Union = std::vector<Span>;
  struct Node {
    Union whole;  ///< of items filed here: they cover all sections of this node, not all of its parent's
    Union below;  ///< of items filed here or under this node
  };
  struct Cursor {
    const Span *next, *end;
  };

  void add(Union& spans, Span span);
  void take(size_t node, int32_t begin, int32_t end, int32_t first, int32_t last, Span bytes);
  void gather(size_t node, int32_t begin, int32_t end, int32_t first, int32_t last);
  void gather(const Union& spans);
  void gather_all(int32_t first, int32_t last);

  int32_t leaves_;           ///< a power of two
  std::vector<Node> nodes_;  ///< children of i are 2i and 2i + 1, the root is 1
  std::vector<Cursor> found_;
  std::vector<Span> merged_;
  int64_t steps_ = 0;
};

}  // namespace tr::packing
