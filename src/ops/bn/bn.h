/// Batch normalization over N, H and W of each channel, with what fusion may append to it.
///   x0, x1, y: [N, H, W, C]   weight, bias, statistics: [C]
///   y = act((x0 - mean) / sqrt(var + epsilon) * weight + bias + x1)
/// FORWARD normalizes with the batch's mean and biased variance, and moves the running statistics by
/// `momentum` towards the batch's mean and unbiased variance; INFERENCE normalizes with the running ones.
/// Folded for INFERENCE, y = act(x0 * scale + bias + x1) with EQUIVALENT scale and bias.
/// With frozen=true FORWARD too normalizes with the running statistics, and leaves them as they are; they are
/// then constants, so dx0 = weight / sqrt(var + epsilon) dy: torch.nn.BatchNorm2d.eval().
/// x1 exists with residual=true, act is ReLU with activation="relu".
/// Backward keeps x0, the mean and the inverse standard deviation. The ReLU mask is computed again from x0;
/// where there is a residual, the CPU reads y and CUDA keeps bits: channel c of pixel p in bit c % 8 of byte
/// p * ceil(C / 8) + c / 8. Source: S. Ioffe, C. Szegedy, "Batch Normalization", ICML 2015.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

struct BnAttributes {
  explicit BnAttributes(const Attributes& attrs);

  double momentum, epsilon;
  bool relu, residual, frozen;
};

/// Why a batch cannot be normalized; empty where it can.
std::string bn_declines(const OpQuery& query, Pass pass);

/// The rule for CUDA plans: partial sums of a pass that sums over pixels.
Offer bn_cuda_offer(const OpQuery& query, Pass pass);

}  // namespace tr
