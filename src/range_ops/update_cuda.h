/// The optimizers on CUDA, and what follows them in a step, in one kernel: parameter blocks, their 16-bit
/// copies, the running statistics, the sums of metrics. Nothing but the sums changes while the NaN flag is
/// set.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "renaissance/core/types.h"

namespace tr {

/// Adam and AdamW differ in where the decay goes only.
enum class UpdateRule : uint8_t { SGD, MOMENTUM, NESTEROV, ADAM, LARS, LARS_NESTEROV };

/// One block of parameters with its twins, slot padding included. Everything is aligned to 16 bytes.
struct UpdateBlock {
  float* weights = nullptr;
  const void* gradients = nullptr;  ///< FP32, or in the 16-bit type
  bool gradients_16bit = false;
  float* first_moment = nullptr;   ///< where the rule has one
  float* second_moment = nullptr;  ///< likewise
  void* copy = nullptr;            ///< receives the new weights in the 16-bit type; null: none
  bool decays = false;
  bool decoupled = false;  ///< decay of the weight itself, as AdamW's, instead of one added to the gradient
};

/// Elements [first, first + elements) of a block, both multiples of 4: what is changed.
struct UpdatedSegment {
  int block = 0;
  int64_t first = 0, elements = 0;
  const float* trust = nullptr;  ///< LARS: factor of the learning rate; null: 1
};

struct UpdateScalars {
  const int32_t* nan_flag = nullptr;
  const float* gradient_factor = nullptr;  ///< gradients are multiplied with it first; null: they are not
  const float* learning_rate = nullptr;
  const float* momentum = nullptr;
  const float* weight_decay = nullptr;
  const float* beta1 = nullptr;
  const float* beta2 = nullptr;
  const float* epsilon = nullptr;
  const float* bias_correction1 = nullptr;
  const float* bias_correction2 = nullptr;
};

/// A copy of a multiple of 16 bytes, aligned to as much.
struct CopiedRange {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};

/// Means of this step times the samples that count (label >= 0), added to the sums.
struct MetricSums {
  static constexpr int METRICS = 3;  ///< loss, top-1, top-5
  const int32_t* labels = nullptr;   ///< null: no metrics
  int64_t samples = 0;
  const float* means[METRICS] = {};
  float* sums[METRICS] = {};
};

struct UpdateTask {
  static constexpr int MOST_BLOCKS = 2, MOST_SEGMENTS = 48;
  UpdateRule rule = UpdateRule::SGD;
  DType compute_dtype = DType::FP32;  ///< of copies and 16-bit gradients; FP32 where there are none
  UpdateBlock blocks[MOST_BLOCKS];
  UpdatedSegment segments[MOST_SEGMENTS];
  int num_segments = 0;
  CopiedRange copy;
  MetricSums metrics;
  UpdateScalars scalars;
};
void launch_update(const UpdateTask& task, cudaStream_t stream);

}  // namespace tr
