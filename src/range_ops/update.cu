#include <type_traits>

#include "ops/support/device.cuh"
#include "range_ops/update_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int PACK = 4;  ///< elements per thread: FP32 in 16 bytes, a warp's loads adjoin
constexpr int64_t ELEMENTS_PER_CHUNK = THREADS * PACK;
constexpr int64_t BYTES_PER_CHUNK = THREADS * static_cast<int64_t>(sizeof(uint4));
/// Many waves of blocks, so that the last wave's idle share is small, and several chunks for each block.
constexpr int64_t MOST_WORKERS = 8448;

constexpr bool has_first_moment(UpdateRule rule) { return rule != UpdateRule::SGD; }

/// The scalars of a step, read once by each thread.
struct Coefficients {
  bool clean;
  float gradient_factor, rate, decay;
  float momentum;                                      ///< rules with a first moment but ADAM
  float beta1, beta2, epsilon, step, root_correction;  ///< ADAM
};

template <UpdateRule RULE>
__device__ Coefficients read_coefficients(const UpdateScalars& s) {
  Coefficients k{};
  k.clean = *s.nan_flag == 0;
  k.gradient_factor = s.gradient_factor == nullptr ? 1.0f : *s.gradient_factor;
  k.rate = *s.learning_rate;
  k.decay = *s.weight_decay;
  if constexpr (RULE == UpdateRule::ADAM) {
    k.beta1 = *s.beta1;
    k.beta2 = *s.beta2;
    k.epsilon = *s.epsilon;
    k.step = k.rate / *s.bias_correction1;
    k.root_correction = sqrtf(*s.bias_correction2);
  } else if constexpr (has_first_moment(RULE)) {
    k.momentum = *s.momentum;
  }
  return k;
}

/// One element; the formulas and their order are those of the CPU.
template <UpdateRule RULE>
__device__ void update_element(const Coefficients& k, float decay, bool decoupled, float gradient, float& w,
                               float& m, float& v) {
  if (RULE != UpdateRule::ADAM && decoupled) {
    w = __fmul_rn(w, 1.0f - k.rate * decay);
    decay = 0.0f;
  }
  if constexpr (RULE == UpdateRule::SGD) {
    w -= k.rate * (gradient + decay * w);
  } else if constexpr (RULE == UpdateRule::LARS || RULE == UpdateRule::LARS_NESTEROV) {
    const float update = k.rate * (gradient + decay * w);
    m = k.momentum * m + update;
    w -= RULE == UpdateRule::LARS_NESTEROV ? update + k.momentum * m : m;
  } else if constexpr (RULE == UpdateRule::ADAM) {
    const float shrunk = w * (decoupled ? 1.0f - k.rate * decay : 1.0f);
    const float g = gradient + (decoupled ? 0.0f : decay) * shrunk;
    m = m + (g - m) * (1.0f - k.beta1);
    v = k.beta2 * v + (1.0f - k.beta2) * g * g;
    w = shrunk - k.step * m / (sqrtf(v) / k.root_correction + k.epsilon);
  } else {
    const float g = gradient + decay * w;
    m = k.momentum * m + g;
    w -= k.rate * (RULE == UpdateRule::NESTEROV ? g + k.momentum * m : m);
  }
}

/// PACK elements of a block. G: the gradient's type, T: the copy's.
template <UpdateRule RULE, typename G, typename T>
__device__ void update_pack(const UpdateBlock& block, int64_t i, const Coefficients& k) {
  using Floats = device::Pack<float, PACK>;
  const auto g = device::load<G, PACK>(static_cast<const G*>(block.gradients) + i);
  Floats w = device::load<float, PACK>(block.weights + i), m{}, v{};
  if constexpr (has_first_moment(RULE)) m = device::load<float, PACK>(block.first_moment + i);
  if constexpr (RULE == UpdateRule::ADAM) v = device::load<float, PACK>(block.second_moment + i);
  if (!k.clean) return;
  const float decay = block.decays ? k.decay : 0.0f;
#pragma unroll
  for (int e = 0; e < PACK; ++e) {
    // Rounded as where the scale is taken out beforehand, not contracted with what follows.
    const float gradient = __fmul_rn(device::to_float(g.v[e]), k.gradient_factor);
    update_element<RULE>(k, decay, block.decoupled, gradient, w.v[e], m.v[e], v.v[e]);
  }
  device::store(block.weights + i, w);
  if constexpr (has_first_moment(RULE)) device::store(block.first_moment + i, m);
  if constexpr (RULE == UpdateRule::ADAM) device::store(block.second_moment + i, v);
  if constexpr (!std::is_same_v<T, float>) {
    if (block.copy == nullptr) return;
    device::Pack<T, PACK> narrow;
#pragma unroll
    for (int e = 0; e < PACK; ++e) narrow.v[e] = device::from_float<T>(w.v[e]);
    device::store(static_cast<T*>(block.copy) + i, narrow);
  }
}

template <UpdateRule RULE, typename T>
__device__ void update_chunk(const UpdateTask& task, const UpdatedSegment& segment, int64_t chunk,
                             Coefficients k) {
  const int64_t i = chunk * ELEMENTS_PER_CHUNK + threadIdx.x * PACK;
  if (i >= segment.elements) return;
  const UpdateBlock& block = task.blocks[segment.block];
  if (segment.trust != nullptr) k.rate *= *segment.trust;
  if (block.gradients_16bit)
    update_pack<RULE, T, T>(block, segment.first + i, k);
  else
    update_pack<RULE, float, T>(block, segment.first + i, k);
}

__device__ void copy_chunk(const CopiedRange& copy, int64_t chunk, bool clean) {
  const int64_t i = chunk * THREADS + threadIdx.x;
  if (!clean || i >= copy.bytes / static_cast<int64_t>(sizeof(uint4))) return;
  static_cast<uint4*>(copy.to)[i] = static_cast<const uint4*>(copy.from)[i];
}

/// By one block: counting is exact in any order.
__device__ void add_metrics(const MetricSums& metrics) {
  int64_t counted = 0;
  for (int64_t first = 0; first < metrics.samples; first += THREADS) {
    const int64_t i = first + threadIdx.x;
    counted += __syncthreads_count(i < metrics.samples && metrics.labels[i] >= 0);
  }
  if (threadIdx.x < MetricSums::METRICS)
    *metrics.sums[threadIdx.x] += *metrics.means[threadIdx.x] * static_cast<float>(counted);
}

__host__ __device__ int64_t chunks_of(const UpdatedSegment& segment) {
  return (segment.elements + ELEMENTS_PER_CHUNK - 1) / ELEMENTS_PER_CHUNK;
}
__host__ __device__ int64_t chunks_of(const CopiedRange& copy) {
  return (copy.bytes + BYTES_PER_CHUNK - 1) / BYTES_PER_CHUNK;
}

/// The first block adds up the metrics, if there are any; the others share the chunks of everything else.
template <UpdateRule RULE, typename T>
__global__ void __launch_bounds__(THREADS) update_kernel(const __grid_constant__ UpdateTask task) {
  const int metrics_blocks = task.metrics.labels != nullptr ? 1 : 0;
  const int worker = static_cast<int>(blockIdx.x) - metrics_blocks;
  if (worker < 0) return add_metrics(task.metrics);
  const Coefficients k = read_coefficients<RULE>(task.scalars);
  const int workers = static_cast<int>(gridDim.x) - metrics_blocks;
  int64_t chunk = worker, begin = 0;
  for (int s = 0; s < task.num_segments; ++s) {
    const UpdatedSegment& segment = task.segments[s];
    const int64_t end = begin + chunks_of(segment);
    for (; chunk < end; chunk += workers) update_chunk<RULE, T>(task, segment, chunk - begin, k);
    begin = end;
  }
  const int64_t end = begin + chunks_of(task.copy);
  for (; chunk < end; chunk += workers) copy_chunk(task.copy, chunk - begin, k.clean);
}

template <UpdateRule RULE>
void launch_rule(const UpdateTask& task, cudaStream_t stream) {
  int64_t chunks = chunks_of(task.copy);
  for (int s = 0; s < task.num_segments; ++s) chunks += chunks_of(task.segments[s]);
  const int64_t workers = chunks < MOST_WORKERS ? chunks : MOST_WORKERS;
  const auto blocks = static_cast<unsigned>(workers + (task.metrics.labels != nullptr ? 1 : 0));
  if (blocks == 0) return;
  device::for_dtype(task.compute_dtype, [&](auto element) {
    update_kernel<RULE, decltype(element)><<<blocks, THREADS, 0, stream>>>(task);
  });
}

}  // namespace

void launch_update(const UpdateTask& task, cudaStream_t stream) {
  switch (task.rule) {
    case UpdateRule::SGD:
      return launch_rule<UpdateRule::SGD>(task, stream);
    case UpdateRule::MOMENTUM:
      return launch_rule<UpdateRule::MOMENTUM>(task, stream);
    case UpdateRule::NESTEROV:
      return launch_rule<UpdateRule::NESTEROV>(task, stream);
    case UpdateRule::ADAM:
      return launch_rule<UpdateRule::ADAM>(task, stream);
    case UpdateRule::LARS:
      return launch_rule<UpdateRule::LARS>(task, stream);
    case UpdateRule::LARS_NESTEROV:
      return launch_rule<UpdateRule::LARS_NESTEROV>(task, stream);
  }
}

}  // namespace tr
