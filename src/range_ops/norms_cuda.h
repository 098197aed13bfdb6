/// Norms of gradients and weights on CUDA: RANGE_CLIP_NORM and RANGE_TRUST_RATIOS. Squares are summed in
/// double, in an order that the sizes alone decide. Nothing is written while the NaN flag is set.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "renaissance/core/types.h"

namespace tr {

/// Elements whose squares are summed; aligned to 16 bytes, a multiple of 4 of them.
struct NormSource {
  const void* gradients = nullptr;  ///< FP32, or in the 16-bit type
  bool gradients_16bit = false;
  const float* weights = nullptr;  ///< null: gradients alone
  int64_t elements = 0;
  float* trust = nullptr;  ///< receives the trust ratio
};

struct NormTask {
  static constexpr int MOST_SOURCES = 32;
  NormSource sources[MOST_SOURCES];
  int num_sources = 0;
  int pieces = 1;                     ///< that each source is summed in, by as many blocks
  DType compute_dtype = DType::FP32;  ///< of 16-bit gradients
  double* sums = nullptr;             ///< scratch: two per source and piece
  const int32_t* nan_flag = nullptr;
};

/// What pieces and sources NORM_SUMS_BYTES is enough for.
inline constexpr int TRUST_PIECES = 64, CLIP_PIECES = 512, MOST_CLIP_SOURCES = 4;

/// *gradient_factor becomes what gradients are to be multiplied with so that the norm of all sources together
/// is at most max_norm, as torch.nn.utils.clip_grad_norm_ has it. `scaled`: they are to be multiplied with
/// what it held before anyway.
void launch_clip_factor(const NormTask& task, float max_norm, bool scaled, float* gradient_factor,
                        cudaStream_t stream);

struct TrustScalars {
  const float* gradient_factor = nullptr;  ///< gradients are multiplied with it; null: they are not
  const float* coefficient = nullptr;
  const float* weight_decay = nullptr;
  const float* epsilon = nullptr;
};
/// Of each source: coefficient × |w| / (|g| + decay × |w| + epsilon), and 1 where a norm is 0.
void launch_trust_ratios(const NormTask& task, const TrustScalars& scalars, cudaStream_t stream);

/// FP32 gradients *= *factor.
void launch_scale_gradients(float* gradients, int64_t elements, const float* factor, const int32_t* nan_flag,
                            cudaStream_t stream);

}  // namespace tr
