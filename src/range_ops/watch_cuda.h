/// RANGE_CHECK_NAN, RANGE_GRAD_SCALING and RANGE_ADVANCE_SCALARS on CUDA: one kernel for any of them
/// together.
#pragma once

#include <cuda_runtime_api.h>

#include "renaissance/core/types.h"
#include "renaissance/graph/schedule.h"

namespace tr {

/// Gradients to look through; a multiple of 16 bytes, aligned to as much.
struct WatchedRange {
  const void* data = nullptr;
  int64_t bytes = 0;
  DType dtype = DType::FP32;
};

/// The scalars of a step that the watch reads and writes, each in a slot of its own.
struct WatchScalars {
  int32_t* sync_counter = nullptr;  ///< zero before and after
  int32_t* nan_flag = nullptr;
  float* loss_scale = nullptr;
  int32_t* clean_steps = nullptr;
  int32_t growth_steps = 0;  ///< clean steps until the scale doubles; 0: it never changes
  float* gradient_factor =
      nullptr;  ///< receives 1 / the loss scale in force; null: gradients are unscaled in place
  int32_t* step = nullptr;
  int32_t* skipped_steps = nullptr;
  int32_t* dropout_counter = nullptr;
  float* learning_rate = nullptr;
  float* bias_correction1 = nullptr;
  float* bias_correction2 = nullptr;
  const float* beta1 = nullptr;
  const float* beta2 = nullptr;
  ScheduleSpec schedule;
};

struct WatchTask {
  static constexpr int MOST_RANGES = 2;
  WatchedRange ranges[MOST_RANGES];
  bool checks = false;  ///< set the flag to whether `ranges` hold a value that is not finite; else it is read
  bool adapts_scale = false;  ///< then halve or grow the loss scale
  bool advances = false;      ///< then advance step, learning rate, bias corrections, dropout counter
  WatchScalars scalars;
};
void launch_watch(const WatchTask& task, cudaStream_t stream);

/// RANGE_GRAD_SCALING by itself: takes the scale out of FP32 `gradients` in place where the step is clean,
/// then adapts it. `elements` is a multiple of 4, the address of 16 bytes.
void launch_unscale(float* gradients, int64_t elements, const WatchScalars& scalars, cudaStream_t stream);

}  // namespace tr
