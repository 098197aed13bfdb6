/// Arenas in host memory: page-aligned, zeroed, in huge pages where the system offers them.
#pragma once

#include "renaissance/backend/arena_keeper.h"

namespace tr {

/// Bytes that can still be had without swapping, the container's limit included; −1 where the system does not
/// say.
int64_t available_host_bytes();

class HostArenaAllocator : public ArenaAllocator {
 public:
  std::byte* allocate(int rank, int64_t bytes) override;
  void release(int rank, std::byte* arena, int64_t bytes) noexcept override;
};

}  // namespace tr
