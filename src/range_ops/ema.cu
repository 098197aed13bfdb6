#include "ops/support/device.cuh"
#include "range_ops/ema_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 2112;
constexpr int PACK = 4;  ///< elements per thread, in 16 bytes

__global__ void __launch_bounds__(THREADS) ema_kernel(const __grid_constant__ EmaTask task) {
  if (*task.nan_flag != 0) return;
  const auto share = static_cast<float>(1.0 - task.spec.at(*task.step));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS * PACK;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) * PACK; i < task.elements;
       i += stride) {
    const auto w = device::load<float, PACK>(task.weights + i);
    auto e = device::load<float, PACK>(task.averages + i);
#pragma unroll
    for (int k = 0; k < PACK; ++k) e.v[k] += share * (w.v[k] - e.v[k]);
    device::store(task.averages + i, e);
  }
}

}  // namespace

void launch_ema(const EmaTask& task, cudaStream_t stream) {
  ema_kernel<<<device::blocks_for(task.elements / PACK, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(task);
}

}  // namespace tr
