/// What runs a compiled model: devices, arenas, library handles, captured steps. No vendor type here.
///
///   auto context = make_context(model);                    // allocates once
///   auto step = context->capture(Variant::TRAIN_BASE, InputBuffer::A);
///   step->launch();  context->synchronize();
///
/// Two contexts can live in one process; one context belongs to one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "renaissance/backend/arena_keeper.h"
#include "renaissance/graph/compiler.h"

namespace tr {

/// A whole step with every address resolved. launch() allocates nothing and returns as soon as the device
/// has the work; a device failure surfaces at the next synchronize().
class CapturedStep {
 public:
  virtual ~CapturedStep() = default;
  virtual void launch() = 0;
};

/// Where a loader puts one rank's next batch: dense NHWC pixels and labels.
struct InputSlot {
  std::byte* data = nullptr;
  int32_t* labels = nullptr;
};

class Context {
 public:
  virtual ~Context() = default;

  virtual const CompiledModel& model() const = 0;
  virtual const ArenaKeeper& arenas() const = 0;
  /// The graph of a variant's whole step over one input buffer.
  virtual std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer) = 0;
  /// Only some parts of a step, for instance WEIGHT_CAST after loading weights.
  virtual std::unique_ptr<CapturedStep> capture_parts(Variant variant, InputBuffer buffer,
                                                      const std::vector<GraphId>& parts) = 0;
  /// Host memory that the step over `buffer` reads; fill it after wait_input().
  virtual InputSlot input(int rank, InputBuffer buffer) = 0;
  /// Returns when no launched step reads `buffer` any more.
  virtual void wait_input(InputBuffer buffer) = 0;
  /// Copies between the host and an arena, in order with launched steps. Bounds are checked (IndexError).
  virtual void write(int rank, int64_t offset, const void* from, int64_t bytes) = 0;
  virtual void read(int rank, int64_t offset, void* to, int64_t bytes) = 0;
  /// Waits for everything launched. DeviceError names the last node enqueued.
  virtual void synchronize() = 0;
};

/// Bytes that a context of `target` could allocate now, over all ranks; −1 where the system does not say.
int64_t available_bytes(const Target& target);

/// Allocates the arenas and library handles of the model's target. NotSupportedError when this build has no
/// such backend; DeviceError when the memory cannot be had (needed and available bytes are named).
std::unique_ptr<Context> make_context(std::shared_ptr<const CompiledModel> model);

}  // namespace tr
