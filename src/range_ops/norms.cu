#include "ops/support/device.cuh"
#include "range_ops/norms_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 512;
constexpr int PACK = 4;
constexpr int64_t ELEMENTS_PER_CHUNK = THREADS * PACK;
constexpr int64_t MOST_BLOCKS = 2112;

struct Sums {
  double gradients = 0.0, weights = 0.0;
};

/// Of all threads' values, in thread 0, in a fixed order.
__device__ Sums sum_of_block(const Sums& mine) {
  __shared__ double gradients[THREADS], weights[THREADS];
  const unsigned thread = threadIdx.x;
  gradients[thread] = mine.gradients;
  weights[thread] = mine.weights;
  __syncthreads();
  for (unsigned half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) {
      gradients[thread] += gradients[thread + half];
      weights[thread] += weights[thread + half];
    }
    __syncthreads();
  }
  return {gradients[0], weights[0]};
}

template <typename G>
__device__ Sums sum_squares(const NormSource& source, int piece, int pieces) {
  Sums sums;
  const int64_t stride = pieces * ELEMENTS_PER_CHUNK;
  for (int64_t i = piece * ELEMENTS_PER_CHUNK + threadIdx.x * PACK; i < source.elements; i += stride) {
    const auto g = device::load<G, PACK>(static_cast<const G*>(source.gradients) + i);
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      const auto value = static_cast<double>(device::to_float(g.v[e]));
      sums.gradients += value * value;
    }
    if (source.weights == nullptr) continue;
    const auto w = device::load<float, PACK>(source.weights + i);
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      const auto value = static_cast<double>(w.v[e]);
      sums.weights += value * value;
    }
  }
  return sums;
}

/// Block (piece, source) leaves its two sums.
template <typename T>
__global__ void __launch_bounds__(THREADS) sum_kernel(const __grid_constant__ NormTask task) {
  if (*task.nan_flag != 0) return;
  const NormSource& source = task.sources[blockIdx.y];
  const auto piece = static_cast<int>(blockIdx.x);
  const Sums sums = sum_of_block(source.gradients_16bit ? sum_squares<T>(source, piece, task.pieces)
                                                        : sum_squares<float>(source, piece, task.pieces));
  if (threadIdx.x != 0) return;
  double* out = task.sums + 2 * (static_cast<int64_t>(blockIdx.y) * task.pieces + piece);
  out[0] = sums.gradients;
  out[1] = sums.weights;
}

/// The whole block adds up pieces [first, first + count); thread 0 has the sums.
__device__ Sums add_pieces(const double* sums, int first, int count) {
  Sums mine;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += THREADS) {
    mine.gradients += sums[2 * (first + i)];
    mine.weights += sums[2 * (first + i) + 1];
  }
  return sum_of_block(mine);
}

__global__ void __launch_bounds__(THREADS)
    clip_kernel(const __grid_constant__ NormTask task, float max_norm, bool scaled, float* gradient_factor) {
  if (*task.nan_flag != 0) return;
  const Sums sums = add_pieces(task.sums, 0, task.num_sources * task.pieces);
  if (threadIdx.x != 0) return;
  const float scale = scaled ? *gradient_factor : 1.0f;
  const float norm = static_cast<float>(sqrt(sums.gradients)) * scale;
  *gradient_factor = scale * fminf(1.0f, max_norm / (norm + 1e-6f));
}

__global__ void __launch_bounds__(THREADS)
    trust_kernel(const __grid_constant__ NormTask task, TrustScalars scalars) {
  if (*task.nan_flag != 0) return;
  const auto source = static_cast<int>(blockIdx.x);
  const Sums sums = add_pieces(task.sums, source * task.pieces, task.pieces);
  if (threadIdx.x != 0) return;
  const float factor = scalars.gradient_factor == nullptr ? 1.0f : *scalars.gradient_factor;
  const float w = static_cast<float>(sqrt(sums.weights)),
              g = static_cast<float>(sqrt(sums.gradients)) * factor;
  const bool both = w > 0.0f && g > 0.0f;
  *task.sources[source].trust =
      both ? *scalars.coefficient * w / (g + *scalars.weight_decay * w + *scalars.epsilon) : 1.0f;
}

__global__ void __launch_bounds__(THREADS)
    scale_kernel(float* gradients, int64_t elements, const float* factor, const int32_t* nan_flag) {
  if (*nan_flag != 0 || *factor == 1.0f) return;
  const float f = *factor;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * ELEMENTS_PER_CHUNK;
  for (int64_t i = blockIdx.x * ELEMENTS_PER_CHUNK + threadIdx.x * PACK; i < elements; i += stride) {
    auto pack = device::load<float, PACK>(gradients + i);
    for (float& value : pack.v) value *= f;
    device::store(gradients + i, pack);
  }
}

void launch_sums(const NormTask& task, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(task.pieces), static_cast<unsigned>(task.num_sources));
  device::for_dtype(task.compute_dtype, [&](auto element) {
    sum_kernel<decltype(element)><<<blocks, THREADS, 0, stream>>>(task);
  });
}

}  // namespace

void launch_clip_factor(const NormTask& task, float max_norm, bool scaled, float* gradient_factor,
                        cudaStream_t stream) {
  launch_sums(task, stream);
  clip_kernel<<<1, THREADS, 0, stream>>>(task, max_norm, scaled, gradient_factor);
}

void launch_trust_ratios(const NormTask& task, const TrustScalars& scalars, cudaStream_t stream) {
  launch_sums(task, stream);
  trust_kernel<<<static_cast<unsigned>(task.num_sources), THREADS, 0, stream>>>(task, scalars);
}

void launch_scale_gradients(float* gradients, int64_t elements, const float* factor, const int32_t* nan_flag,
                            cudaStream_t stream) {
  scale_kernel<<<device::blocks_for(elements / PACK, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
      gradients, elements, factor, nan_flag);
}

}  // namespace tr
