/// What tests need of a CUDA device, with no CUDA type. A build without the CUDA backend links
/// cuda_rig_absent.cpp, which has no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "renaissance/graph/compiler.h"
#include "renaissance/graph/op_spec.h"

namespace tr::test {

/// Device memory beside a test's own, with a stream and the library handles that kernels are prepared with.
/// Chosen algorithms are remembered in memory only.
class DeviceMirror {
 public:
  virtual ~DeviceMirror() = default;
  virtual KernelContext& context() = 0;
  /// Zeroed and aligned to ARENA_ALIGNMENT_BYTES; an allocation of its own, so that compute-sanitizer sees
  /// what leaves it. Lives as long as the mirror.
  virtual std::byte* allocate(int64_t bytes) = 0;
  /// In order with run().
  virtual void upload(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void download(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void fill(std::byte* to, int byte, int64_t bytes) = 0;
  /// Runs `call` and waits for it; `captured`: as a CUDA graph, the way a training step does. DeviceError
  /// with `who` when anything failed.
  virtual void run(const Call& call, bool captured, const std::string& who) = 0;
  /// What a captured step does for `nodes`, with the arena at `base`.
  virtual Call bind_ranges(const std::vector<const GraphNode*>& nodes, const CompiledModel& model,
                           const MemoryPlan& plan, std::byte* base, InputBuffer buffer) = 0;
};

/// False in a build without the CUDA backend, and where there is no card.
bool has_cuda_device();
/// NotSupportedError in a build without the CUDA backend.
std::unique_ptr<DeviceMirror> make_device_mirror(const Target& target);
/// Bytes of device memory that nobody has, to the byte.
int64_t free_device_bytes();

}  // namespace tr::test
