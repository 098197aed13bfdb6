#include "backend/cpu/host_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace tr {

namespace {

/// Bytes the system says it can still give without swapping; -1 when it does not say.
int64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (meminfo >> key >> kib >> unit)
    if (key == "MemAvailable:") return kib * 1024;
  return -1;
}

}  // namespace

std::byte* HostArenaAllocator::allocate(int rank, int64_t bytes) {
  const int64_t available = available_bytes();
  TR_CHECK(available < 0 || bytes <= available, DeviceError,
           cat("cpu rank ", rank, ": the plan needs ", bytes, " bytes, ", available,
               " are available; use a smaller batch or resolution"));
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
