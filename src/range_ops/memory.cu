#include "ops/support/device.cuh"
#include "range_ops/memory_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 2112;
constexpr int PACK = 4;  ///< elements per thread of a cast: FP32 in 16 bytes

__global__ void __launch_bounds__(THREADS) copy_kernel(const char* __restrict__ from, char* __restrict__ to,
                                                       int64_t bytes, const int32_t* nan_flag) {
  if (nan_flag != nullptr && *nan_flag != 0) return;
  const int64_t vectors = bytes / static_cast<int64_t>(sizeof(uint4));
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = thread; i < vectors; i += stride)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  const int64_t rest = vectors * static_cast<int64_t>(sizeof(uint4)) + thread;
  if (rest < bytes) to[rest] = from[rest];
}

template <typename From, typename To>
__global__ void __launch_bounds__(THREADS) cast_kernel(const From* from, To* to, int64_t elements) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS * PACK;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) * PACK; i < elements;
       i += stride) {
    const auto pack = device::load<From, PACK>(from + i);
    device::Pack<To, PACK> cast;
#pragma unroll
    for (int e = 0; e < PACK; ++e) cast.v[e] = device::from_float<To>(device::to_float(pack.v[e]));
    device::store(to + i, cast);
  }
}

template <typename From, typename To>
void launch_cast(const From* from, To* to, int64_t elements, cudaStream_t stream) {
  cast_kernel<<<device::blocks_for(elements / PACK, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(from, to,
                                                                                                 elements);
}

}  // namespace

void launch_copy(const void* from, void* to, int64_t bytes, const int32_t* nan_flag, cudaStream_t stream) {
  const int64_t vectors = (bytes + 15) / 16;
  copy_kernel<<<device::blocks_for(vectors, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
      static_cast<const char*>(from), static_cast<char*>(to), bytes, nan_flag);
}

void launch_narrow(const float* from, void* to, DType dtype, int64_t elements, cudaStream_t stream) {
  device::for_dtype(
      dtype, [&](auto element) { launch_cast(from, static_cast<decltype(element)*>(to), elements, stream); });
}

void launch_widen(const void* from, float* to, DType dtype, int64_t elements, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto element) {
    launch_cast(static_cast<const decltype(element)*>(from), to, elements, stream);
  });
}

}  // namespace tr
