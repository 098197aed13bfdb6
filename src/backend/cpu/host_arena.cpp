#include "backend/cpu/host_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tr {

namespace {

/// A number in a one-number file, −1 where there is none ("max" included).
int64_t number_in(const char* file) {
  std::ifstream in(file);
  int64_t value = -1;
  return in >> value ? value : -1;
}

}  // namespace

int64_t available_host_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0, available = -1;
  while (meminfo >> key >> kib >> unit)
    if (key == "MemAvailable:") available = kib * 1024;
  // A container may allow less than the machine has.
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max"),
                used = number_in("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0) available = available < 0 ? limit - used : std::min(available, limit - used);
  return available;
}

std::byte* HostArenaAllocator::allocate(int rank, int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TR_CHECK(memory != MAP_FAILED, DeviceError,
           cat("cpu rank ", rank, ": the system refused ", bytes, " bytes for the arena"));
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // advice: a refusal costs speed only
  // Touched now, so that no step pays for page faults. An anonymous mapping reads as zeros.
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  auto* arena = static_cast<volatile char*>(memory);
  for (int64_t at = 0; at < bytes; at += page_bytes) arena[at] = 0;
  return static_cast<std::byte*>(memory);
}

void HostArenaAllocator::release(int, std::byte* arena, int64_t bytes) noexcept {
  munmap(arena, static_cast<size_t>(bytes));
}

}  // namespace tr
