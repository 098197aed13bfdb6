/// Times whole training steps on synthetic data, and the planning of a model.
#pragma once

#include "renaissance/train/recipe.h"

namespace tr {

struct StepBenchmark {
  int64_t steps = 0;                                 ///< timed ones
  double step_ms = 0.0;                              ///< median
  double step_ms_min = 0.0, step_ms_max = 0.0;
  double images_per_s = 0.0;                         ///< all ranks, from the median
  double compile_ms = 0.0;                           ///< blueprint to six plans and graphs
  int64_t planned_bytes = 0;                         ///< of one rank's arena
};

/// The step of train_base over one input buffer that is filled once: what the device needs, without the
/// loader. Takes model, optimizer, batch, precision, device and ranks from the recipe, data sizes too.
/// Warms up for a fifth of `seconds`, then measures for the rest, at least five steps.
StepBenchmark benchmark_step(const Recipe& recipe, double seconds);

}  // namespace tr
