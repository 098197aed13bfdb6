/// Learning rate as a function of the step: a plain value that every backend can evaluate on its device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

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

  /// constexpr, so that nvcc compiles it for the device too.
  constexpr double at(int64_t step) const {
    if (step < warmup_steps) {
      const double done = static_cast<double>(step) / static_cast<double>(warmup_steps);
      return base * (warmup_start + (1.0 - warmup_start) * done);
    }
    const double span = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
    const double t = std::clamp(static_cast<double>(step - warmup_steps) / span, 0.0, 1.0);
    switch (kind) {
      case ScheduleKind::CONSTANT:
        return base;
      case ScheduleKind::STEP:
        return base * std::pow(gamma, static_cast<double>(step / std::max<int64_t>(decay_steps, 1)));
      case ScheduleKind::COSINE:
        return base *
               (final_fraction + (1.0 - final_fraction) * (1.0 + std::cos(std::numbers::pi * t)) / 2.0);
      case ScheduleKind::LINEAR:
        return base * (1.0 - (1.0 - final_fraction) * t);
    }
    return base;
  }
};

}  // namespace tr
