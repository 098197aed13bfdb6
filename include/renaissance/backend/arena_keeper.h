/// One arena per rank, allocated once; every tensor of the run lives in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "renaissance/core/error.h"

namespace tr {

/// Where arenas come from: host memory, a device's, or a test's.
class ArenaAllocator {
 public:
  virtual ~ArenaAllocator() = default;
  /// `bytes` zeroed bytes aligned to ARENA_ALIGNMENT_BYTES; DeviceError naming needed and free bytes when
  /// they cannot be had.
  virtual std::byte* allocate(int rank, int64_t bytes) = 0;
  virtual void release(int rank, std::byte* arena, int64_t bytes) noexcept = 0;
};

/// Owns the arenas; the allocator must outlive it.
class ArenaKeeper {
 public:
  ArenaKeeper(int ranks, int64_t bytes, ArenaAllocator& allocator);
  ~ArenaKeeper();
  ArenaKeeper(const ArenaKeeper&) = delete;
  ArenaKeeper& operator=(const ArenaKeeper&) = delete;

  /// Address of `offset` in the arena of `rank`: one addition, no lock. IndexError outside the arena.
  std::byte* ptr_at(int rank, int64_t offset) const {
    TR_CHECK(rank >= 0 && rank < ranks() && offset >= 0 && offset < bytes_, IndexError,
             cat("arena: rank ", rank, " offset ", offset, "; there are ", ranks(), " ranks of ", bytes_, " bytes"));
    return arenas_[static_cast<size_t>(rank)] + offset;
  }
  int ranks() const { return static_cast<int>(arenas_.size()); }
  int64_t bytes() const { return bytes_; }

 private:
  ArenaAllocator& allocator_;
  int64_t bytes_;
  std::vector<std::byte*> arenas_;
};

}  // namespace tr
