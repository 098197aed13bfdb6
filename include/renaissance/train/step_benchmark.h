/// Times whole training steps on synthetic data, and the planning of a model.
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/train/recipe.h"

namespace tr {

struct StepBenchmark {
  int64_t steps = 0;     ///< timed ones
  double step_ms = 0.0;  ///< median
  double step_ms_min = 0.0, step_ms_max = 0.0;
  double images_per_s = 0.0;           ///< all ranks, from the median
  double compile_ms = 0.0;             ///< blueprint to six plans and graphs
  double prepare_ms = 0.0;             ///< allocation, choice of algorithms, capture
  int64_t planned_bytes = 0;           ///< of one rank's arena
  int64_t device_bytes = 0;            ///< in use for it, as the driver reports; 0 on the CPU
  int64_t device_overhead_bytes = 0;   ///< in use before it: driver context and libraries
  int64_t moved_bytes = 0, flops = 0;  ///< of one step of one rank: NodeWork of all nodes
  DeviceRates rates;                   ///< what the device reaches at best; 0 where not measured
  std::vector<NodeTime> nodes;         ///< in step order; only where asked for
};

struct StepBenchmarkOptions {
  double seconds = 5.0;  ///< a fifth warms up
  bool rates = false;    ///< measure the device's rates
  bool profile = false;  ///< time every node by itself, after the steps
};

/// The step of train_base over one input buffer, the other one taken in beside it where the device does that;
/// both are filled once: what the device needs, without the loader. Takes model, optimizer, batch, precision,
/// device and ranks from the recipe, data sizes too. At least five measurements; short steps of a device are
/// measured in groups.
StepBenchmark benchmark_step(const Recipe& recipe, const StepBenchmarkOptions& options);

}  // namespace tr
