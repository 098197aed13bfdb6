/// The decay of the averaged weights as a function of the update: a plain value that every backend can
/// evaluate on its device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tr {

/// E = d E + (1 - d) W after update t, counted from 1, with
///   d = min(decay, (1 + t) / (10 + t))   with warmup, d = decay without.
/// Source of the warm-up: tf.train.ExponentialMovingAverage with num_updates = t.
struct EmaSpec {
  double decay = 0.0;
  bool warmup = true;

  /// constexpr, so that nvcc compiles it for the device too.
  constexpr double at(int64_t update) const {
    if (!warmup) return decay;
    const double t = static_cast<double>(update);
    return std::min(decay, (1.0 + t) / (10.0 + t));
  }
};

}  // namespace tr
