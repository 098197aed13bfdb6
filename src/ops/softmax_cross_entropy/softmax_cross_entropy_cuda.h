/// Launch of the loss on CUDA. What it computes: softmax_cross_entropy.cpp.
#pragma once

#include <driver_types.h>

#include <cstdint>

#include "renaissance/core/batch_mix.h"
#include "renaissance/core/types.h"

namespace tr {

/// Loss and hits of one sample.
struct alignas(16) SampleLoss {
  float loss, top1, top5, spare;
};

struct LossOperands {
  DType dtype;  ///< of logits and dx
  int samples, classes;
  int logits_stride, dx_stride;  ///< elements from sample to sample
  const void* logits;            ///< [samples, 1, 1, classes]
  const int32_t* labels;         ///< [samples]
  const BatchMix* mix;           ///< null: samples are not mixed
  const float* smoothing;        ///< null: 0
  const float* loss_scale;       ///< null where dx is
  void* dx;                      ///< [samples, 1, 1, classes], its padding becomes zero; null: not wanted
  int32_t* predicted;            ///< [samples]; null: not wanted
  float *loss, *top1, *top5;
  SampleLoss* results;  ///< scratch, [samples]
};

/// One launch where both samples and classes are few, else two. Sums run in an order that the shape decides.
void launch_softmax_cross_entropy(const LossOperands& operands, cudaStream_t stream);

}  // namespace tr
