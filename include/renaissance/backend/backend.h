/// What runs a compiled model: devices, arenas, library handles, captured steps. No vendor type here.
///
///   auto context = make_context(model);                    // allocates once
///   auto step = context->capture(Variant::TRAIN_BASE, InputBuffer::A);
///   step->launch();  context->synchronize();
///
/// Two contexts can live in one process; one context belongs to one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "renaissance/backend/arena_keeper.h"
#include "renaissance/core/batch_mix.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/graph/node_work.h"

namespace tr {

/// A whole step with every address resolved. launch() allocates nothing and returns as soon as the device
/// has the work; a device failure surfaces at the next synchronize().
class CapturedStep {
 public:
  virtual ~CapturedStep() = default;
  virtual void launch() = 0;
};

/// Where a loader puts one rank's next batch: NHWC pixels and labels.
struct InputSlot {
  std::byte* data = nullptr;
  int32_t* labels = nullptr;
  bool raw_bytes = false;  ///< dense UINT8 pixels that the device normalizes; else normalized, of `dtype`
  DType dtype =
      DType::FP32;  ///< FP32, dense; FP16 and BF16 with zeros from the last channel to the next pixel
  int64_t pixel_stride = 0;  ///< elements from one normalized pixel to the next
  /// How the batch is mixed; pixels that are not raw bytes must be mixed already. Null where no batch is.
  BatchMix* mix = nullptr;
};
/// Puts dense normalized pixels at the slot's beginning, rounded to its type. StateError where it takes
/// bytes.
void put_pixels(const InputSlot& slot, std::span<const float> pixels, int64_t channels);

/// What a device reaches on work made for it.
struct DeviceRates {
  double copy_bytes_per_s = 0.0;    ///< bytes read plus bytes written
  double matrix_flops_per_s = 0.0;  ///< of a square matrix product, random operands
};

/// Device time of one call of a step run by itself, and the least that it must do. A call may be several
/// nodes that the backend has one kernel for, which then moves fewer bytes than they would.
struct NodeTime {
  std::string name;
  double ms = 0.0;
  NodeWork work;
};

class Context {
 public:
  virtual ~Context() = default;

  virtual const CompiledModel& model() const = 0;
  virtual const ArenaKeeper& arenas() const = 0;
  /// The graph of a variant's whole step over one input buffer.
  std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer) {
    return capture(variant, buffer, StepKind::WHOLE);
  }
  /// Likewise of another kind of step; ValueError where the model has none (step_parts()).
  virtual std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer, StepKind kind) = 0;
  /// Only some parts of a step, for instance WEIGHT_CAST after loading weights.
  virtual std::unique_ptr<CapturedStep> capture_parts(Variant variant, InputBuffer buffer,
                                                      const std::vector<GraphId>& parts) = 0;
  /// Host memory that the step over `buffer` reads; fill it after wait_input().
  virtual InputSlot input(int rank, InputBuffer buffer) = 0;
  /// Returns when nothing that was launched reads the memory of input(…, buffer) any more.
  virtual void wait_input(InputBuffer buffer) = 0;
  /// True: while a step over one buffer computes, it takes in the batch in the host memory of the other,
  /// which must be filled before that step is launched. The first batch of a pass is taken in by
  /// load_input().
  virtual bool loads_ahead() const { return false; }
  /// Takes in `buffer`'s batch, of `variant`'s shape, in order with launched steps.
  virtual void load_input(Variant /*variant*/, InputBuffer /*buffer*/) {}
  /// Copies between the host and an arena, in order with launched steps. Bounds are checked (IndexError).
  virtual void write(int rank, int64_t offset, const void* from, int64_t bytes) = 0;
  virtual void read(int rank, int64_t offset, void* to, int64_t bytes) = 0;
  /// Waits for everything launched. DeviceError names the last node enqueued.
  virtual void synchronize() = 0;

  /// The calls of a variant's step, each run by itself `repeats` times after a warm-up (the median counts),
  /// which changes what a step changes.
  virtual std::vector<NodeTime> profile(Variant variant, int repeats) = 0;
  /// Measures what the device can do at best with `dtype`: a large copy and a large matrix product. Allocates
  /// for it; DeviceError where there is not enough memory.
  virtual DeviceRates measure_rates(DType dtype) = 0;
  /// Device memory taken since the library handles existed, as the driver reports it (other programs' changes
  /// included); 0 on the CPU.
  virtual int64_t device_bytes() const { return 0; }
  /// Device memory in use before the arena: the driver's context, libraries, other programs; 0 on the CPU.
  virtual int64_t device_overhead_bytes() const { return 0; }
};

/// Bytes that a context of `target` could allocate now, over all ranks; −1 where the system does not say.
int64_t available_bytes(const Target& target);

struct ContextOptions {
  /// For tests of a memory layout: before a program's first node and after every node, the bytes of transient
  /// tensors that nothing needs any more are filled with 0xFF, which is NaN in every floating-point type and
  /// -1 as an integer. Results do not change; steps take longer.
  bool poison_dead_bytes = false;
};

/// Allocates the arenas and library handles of the model's target. NotSupportedError when this build has no
/// such backend; DeviceError when the memory cannot be had (needed and available bytes are named).
std::unique_ptr<Context> make_context(std::shared_ptr<const CompiledModel> model,
                                      const ContextOptions& options = {});

}  // namespace tr
