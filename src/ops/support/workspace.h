/// How a node divides its workspace, on every backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "renaissance/tensor/distributed_tensor.h"

namespace tr {

/// Hands out 256-byte aligned slices of a node's workspace; the same walk in offer() (base null) gives the
/// bytes to ask for.
class WorkspaceSlices {
 public:
  explicit WorkspaceSlices(std::byte* base = nullptr) : base_(base) {}
  std::byte* take(int64_t bytes) {
    std::byte* slice = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(bytes, ARENA_ALIGNMENT_BYTES);
    return slice;
  }
  int64_t bytes() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace tr
