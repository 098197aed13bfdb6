#include "backend/cuda/random_values.h"
#include "ops/support/device.cuh"
#include "renaissance/core/philox.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 2112;
constexpr int GROUP = 4;  ///< elements of a thread: a block of Philox

template <typename T>
__global__ void __launch_bounds__(THREADS)
    random_values_kernel(T* __restrict__ to, int64_t elements, float bound) {
  const Philox random(1);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t group = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; group * GROUP < elements;
       group += stride) {
    const Philox::Block bits = random.at(RandomPurpose::SYNTHETIC, 0, static_cast<uint64_t>(group));
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const float value = (2.0f * Philox::uniform(bits[i]) - 1.0f) * bound;
      if (group * GROUP + i < elements) to[group * GROUP + i] = device::from_float<T>(value);
    }
  }
}

}  // namespace

void launch_random_values(DType dtype, void* to, int64_t elements, float bound, cudaStream_t stream) {
  const unsigned blocks = device::blocks_for((elements + GROUP - 1) / GROUP, THREADS, MOST_BLOCKS);
  device::for_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    random_values_kernel<<<blocks, THREADS, 0, stream>>>(static_cast<T*>(to), elements, bound);
  });
}

}  // namespace tr
