/// ContextOptions::poison_dead_bytes: which bytes to overwrite around the nodes of a program.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/lifetimes.h"

namespace tr {

/// NaN in every floating-point type.
inline constexpr int POISON_BYTE = 0xFF;

class Poison {
 public:
  Poison() = default;  ///< of nothing
  /// `model` must outlive it.
  Poison(const CompiledModel& model, Program program);

  /// Sorted ranges of an arena; none where `node` is not of the program.
  const std::vector<ByteRange>& before(const GraphNode& node) const;
  const std::vector<ByteRange>& after(const GraphNode& node) const;

 private:
  std::vector<ByteRange> nothing_;
  std::map<const GraphNode*, size_t> positions_;
  std::vector<std::vector<ByteRange>> dead_;  ///< see dead_bytes()
};

}  // namespace tr
