#include "renaissance/graph/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tr {

double ScheduleSpec::at(int64_t step) const {
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
      return base * (final_fraction + (1.0 - final_fraction) * (1.0 + std::cos(std::numbers::pi * t)) / 2.0);
    case ScheduleKind::LINEAR:
      return base * (1.0 - (1.0 - final_fraction) * t);
  }
  return base;
}

}  // namespace tr
