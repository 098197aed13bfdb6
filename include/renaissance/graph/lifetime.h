/// When the tensors of the transient zone are needed, and where packing put them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "renaissance/graph/graph_atlas.h"
#include "renaissance/tensor/distributed_tensor.h"

namespace tr {

/// Positions, both included, of the first and the last node of a program that touch a tensor. A program's
/// nodes run one after the other in this order, so one position before another happens before it.
struct Lifetime {
  int32_t first = -1, last = -1;
  bool is_used() const { return first >= 0; }
  bool meets(const Lifetime& other) const {
    return is_used() && other.is_used() && first <= other.last && other.first <= last;
  }
};

/// How one transient tensor is used.
struct TransientUse {
  std::array<Lifetime, NUM_PROGRAMS> life{};  ///< by Program
  /// Needed through whole steps and between them: what copies beside the computation write.
  bool always = false;
  /// Takes over the bytes of this tensor, whose last user is the first user of this one.
  TensorId in_place_of = NO_TENSOR;

  const Lifetime& in(Program program) const { return life[static_cast<size_t>(program)]; }
  Lifetime& in(Program program) { return life[static_cast<size_t>(program)]; }
};

/// The packed layout of the transient zone, the same for all variants.
struct TransientPlacement {
  std::vector<TransientUse> uses;  ///< by tensor id; persistent tensors have none
  std::vector<int64_t> offsets;    ///< by tensor id, from the zone's beginning; −1 for persistent tensors
  int64_t bytes = 0;               ///< of the zone
  int64_t lower_bound = 0;         ///< the largest sum of slots alive at once; no layout needs less
};

}  // namespace tr
