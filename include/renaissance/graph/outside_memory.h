/// What a training takes beside its arena: computed where a rule says it, measured where one cannot.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "renaissance/graph/compiler.h"

namespace tr {

/// Device memory of one process beside its arena, as measured on one card.
struct DeviceOverhead {
  int compute_capability;   ///< of the card
  std::string_view card;    ///< "NVIDIA H200"
  int64_t context_bytes;    ///< in use before the arena is allocated: driver context, libraries
  int64_t steps_bytes;      ///< in use beyond the arena once all steps are captured, the most seen
  std::string_view source;  ///< versions, and where the figures are

  int64_t bytes() const { return context_bytes + steps_bytes; }
};

/// The figures of a card of the target's compute capability; nothing where none was measured, and for the
/// CPU.
std::optional<DeviceOverhead> measured_overhead(const Target& target);

/// Page-locked host memory of one rank: the two slots from which a CUDA device copies the next batch. 0 for
/// the CPU, which reads batches where they lie.
int64_t pinned_host_bytes(const CompiledModel& model);

}  // namespace tr
