#include "ops/support/device.cuh"
#include "range_ops/accumulate_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 2112;
constexpr int PACK = 4;  ///< elements per thread, in 16 bytes

__device__ int64_t first_element() {
  return (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) * PACK;
}
__device__ int64_t grid_elements() { return static_cast<int64_t>(gridDim.x) * THREADS * PACK; }

__global__ void __launch_bounds__(THREADS) accumulate_kernel(const __grid_constant__ AccumulateTask task) {
  const auto weight = static_cast<float>(task.samples);
  for (int64_t i = first_element(); i < task.elements; i += grid_elements()) {
    const auto g = device::load<float, PACK>(task.gradients + i);
    auto sum = device::load<float, PACK>(task.sums + i);
#pragma unroll
    for (int k = 0; k < PACK; ++k) sum.v[k] += g.v[k] * weight;
    device::store(task.sums + i, sum);
  }
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  *task.summed_samples += task.samples;
  ++*task.dropout_counter;
}

__global__ void __launch_bounds__(THREADS) average_kernel(const __grid_constant__ AccumulateTask task) {
  const auto weight = static_cast<float>(task.samples);
  const auto all = static_cast<float>(*task.summed_samples + task.samples);
  for (int64_t i = first_element(); i < task.elements; i += grid_elements()) {
    auto g = device::load<float, PACK>(task.gradients + i);
    const auto sum = device::load<float, PACK>(task.sums + i);
#pragma unroll
    for (int k = 0; k < PACK; ++k) g.v[k] = (sum.v[k] + g.v[k] * weight) / all;
    device::store(task.gradients + i, g);
    device::store(task.sums + i, device::Pack<float, PACK>{});
  }
}

unsigned blocks(const AccumulateTask& task) {
  return device::blocks_for(task.elements / PACK, THREADS, MOST_BLOCKS);
}

}  // namespace

void launch_accumulate(const AccumulateTask& task, cudaStream_t stream) {
  accumulate_kernel<<<blocks(task), THREADS, 0, stream>>>(task);
}

void launch_average(const AccumulateTask& task, cudaStream_t stream) {
  average_kernel<<<blocks(task), THREADS, 0, stream>>>(task);
  // Not in the kernel, whose blocks all read it.
  cudaMemsetAsync(task.summed_samples, 0, sizeof *task.summed_samples, stream);
}

}  // namespace tr
