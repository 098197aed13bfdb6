#include "renaissance/graph/outside_memory.h"

#include <algorithm>
#include <array>

namespace tr {

namespace {

constexpr std::array<DeviceOverhead, 1> MEASURED{
    {{90, "NVIDIA H200", 567'083'008, 9'114'624,
      "driver 580, CUDA 13.0, cuDNN 9.19; benchmarks/results/2026-11-30-nvidia-h200-overhead.json"}}};

}  // namespace

std::optional<DeviceOverhead> measured_overhead(const Target& target) {
  if (target.backend != BackendKind::CUDA) return std::nullopt;
  const auto found = std::find_if(MEASURED.begin(), MEASURED.end(), [&](const DeviceOverhead& overhead) {
    return overhead.compute_capability == target.compute_capability;
  });
  if (found == MEASURED.end()) return std::nullopt;
  return *found;
}

int64_t pinned_host_bytes(const CompiledModel& model) {
  constexpr int64_t SLOTS = 2;  // one is filled while the other is copied
  if (model.raw_input == NO_TENSOR) return 0;
  return SLOTS * model.plan(Variant::TRAIN_BASE).tensor(model.raw_input).slot_bytes;
}

}  // namespace tr
