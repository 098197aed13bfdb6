/// Learning rate as a function of the step: a plain value that every backend can evaluate on its device.
/// Formulas and names are those of torch.optim.lr_scheduler; one_cycle: L. Smith, N. Topin,
/// "Super-convergence", 2018; cosine and its restarts: I. Loshchilov, F. Hutter, "SGDR", ICLR 2017.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tr {

enum class ScheduleKind : uint8_t {
  CONSTANT,
  STEP,
  COSINE,
  LINEAR,
  MULTI_STEP,
  EXPONENTIAL,
  POLYNOMIAL,
  COSINE_RESTARTS,
  ONE_CYCLE
};
/// LINEAR: from warmup_start × base to base. CONSTANT: warmup_start × base throughout.
enum class WarmupKind : uint8_t { LINEAR, CONSTANT };
/// How one_cycle goes from one rate to the next.
enum class Annealing : uint8_t { COSINE, LINEAR };

/// Steps count from 0. The first `warmup_steps` are the warm-up's. After them, with s = step − warmup_steps,
/// t = s / (total_steps − warmup_steps), at most 1, and f = final_fraction:
///   CONSTANT         base
///   STEP             base × gamma^floor(step / decay_steps)
///   MULTI_STEP       base × gamma^(milestones that are not above step)
///   EXPONENTIAL      base × gamma^(s / decay_steps)
///   COSINE           base × (f + (1 − f) × (1 + cos(π t)) / 2)
///   LINEAR           base × (1 − (1 − f) × t)
///   POLYNOMIAL       base × (f + (1 − f) × (1 − t)^power)
///   COSINE_RESTARTS  COSINE over restart_steps, then over restart_factor times as many, and so on
///   ONE_CYCLE        from start_fraction × base to base at step peak_fraction × total_steps − 1, then to
///                    final_fraction × base at step total_steps − 1
/// STEP and MULTI_STEP count from the training's start, so their drops stay where they are under a warm-up.
/// With hold_steps = n > 1 the rate changes every n steps only: it is that of the last multiple of n.
struct ScheduleSpec {
  static constexpr int MOST_MILESTONES = 16;

  ScheduleKind kind = ScheduleKind::CONSTANT;
  double base = 0.1;
  double final_fraction = 0.0;
  double warmup_start = 0.0;
  double gamma = 0.1;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  int64_t decay_steps = 1;
  WarmupKind warmup = WarmupKind::LINEAR;
  Annealing annealing = Annealing::COSINE;
  int num_milestones = 0;
  int64_t milestones[MOST_MILESTONES] = {};  ///< in steps
  double power = 1.0;
  int64_t restart_steps = 1;
  int64_t restart_factor = 1;
  double peak_fraction = 0.3;
  double start_fraction = 0.04;
  int64_t hold_steps = 1;

  /// constexpr, so that nvcc compiles it for the device too. `step` below 2^31.
  constexpr double at(int64_t step) const {
    if (hold_steps > 1) step -= step % hold_steps;
    if (step < warmup_steps) return base * warmup_factor(step);
    const int64_t own_step = step - warmup_steps;
    const double span = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
    const double t = std::clamp(static_cast<double>(own_step) / span, 0.0, 1.0);
    switch (kind) {
      case ScheduleKind::CONSTANT:
        return base;
      case ScheduleKind::STEP:
        return base * std::pow(gamma, static_cast<double>(step / std::max<int64_t>(decay_steps, 1)));
      case ScheduleKind::MULTI_STEP:
        return base * std::pow(gamma, static_cast<double>(milestones_until(step)));
      case ScheduleKind::EXPONENTIAL:
        return base * std::pow(gamma, static_cast<double>(own_step) / static_cast<double>(decay_steps));
      case ScheduleKind::COSINE:
        return base * cosine(t);
      case ScheduleKind::LINEAR:
        return base * (1.0 - (1.0 - final_fraction) * t);
      case ScheduleKind::POLYNOMIAL:
        return base * (final_fraction + (1.0 - final_fraction) * std::pow(1.0 - t, power));
      case ScheduleKind::COSINE_RESTARTS:
        return base * cosine(place_in_cycle(own_step));
      case ScheduleKind::ONE_CYCLE:
        return base * one_cycle(static_cast<double>(own_step));
    }
    return base;
  }

 private:
  constexpr double warmup_factor(int64_t step) const {
    if (warmup == WarmupKind::CONSTANT) return warmup_start;
    const double done = static_cast<double>(step) / static_cast<double>(warmup_steps);
    return warmup_start + (1.0 - warmup_start) * done;
  }

  constexpr double cosine(double t) const {
    return final_fraction + (1.0 - final_fraction) * (1.0 + std::cos(std::numbers::pi * t)) / 2.0;
  }

  constexpr int milestones_until(int64_t step) const {
    int passed = 0;
    while (passed < num_milestones && milestones[passed] <= step) ++passed;
    return passed;
  }

  /// 0 at a restart, towards 1 before the next.
  constexpr double place_in_cycle(int64_t step) const {
    int64_t length = std::max<int64_t>(restart_steps, 1);
    if (restart_factor <= 1) {
      step %= length;
    } else {
      for (; step >= length; length *= restart_factor) step -= length;
    }
    return static_cast<double>(step) / static_cast<double>(length);
  }

  constexpr double anneal(double from, double to, double t) const {
    if (annealing == Annealing::LINEAR) return from + (to - from) * t;
    return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * t));
  }

  constexpr double one_cycle(double step) const {
    const double last = static_cast<double>(total_steps) - 1.0;
    const double peak = peak_fraction * static_cast<double>(total_steps) - 1.0;
    if (step < peak) return anneal(start_fraction, 1.0, step / peak);
    if (last <= peak) return 1.0;
    return anneal(1.0, final_fraction, std::min((step - peak) / (last - peak), 1.0));
  }
};

}  // namespace tr
