/// Learning rate as a function of the step: a plain value that every backend can evaluate on its device.
#pragma once

#include <cstdint>

namespace tr {

enum class ScheduleKind : uint8_t { CONSTANT, STEP, COSINE, LINEAR };

/// Steps count from 0. During the first `warmup_steps` the rate grows linearly from
/// warmup_start × base to base; after them
///   CONSTANT  base
///   STEP      base × gamma^floor(step / decay_steps)
///   COSINE    base × (f + (1 − f) × (1 + cos(π t)) / 2),  t = (step − warmup) / (total − warmup)
///   LINEAR    base × (1 − (1 − f) × t)
/// with f = final_fraction. Past `total_steps` the rate stays at its last value.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::CONSTANT;
  double base = 0.1;
  double final_fraction = 0.0;
  double warmup_start = 0.0;
  double gamma = 0.1;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  int64_t decay_steps = 1;

  double at(int64_t step) const;
};

}  // namespace tr
