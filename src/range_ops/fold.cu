#include "ops/support/device.cuh"
#include "range_ops/fold_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 256;

__global__ void __launch_bounds__(THREADS) fold_kernel(const __grid_constant__ FoldTask task) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t c = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; c < task.channels; c += stride) {
    const double factor =
        static_cast<double>(task.weight[c]) / sqrt(static_cast<double>(task.variance[c]) + task.epsilon);
    task.scale[c] = static_cast<float>(factor);
    task.offset[c] =
        static_cast<float>(static_cast<double>(task.bias[c]) - static_cast<double>(task.mean[c]) * factor);
  }
}

}  // namespace

void launch_fold(const FoldTask& task, cudaStream_t stream) {
  fold_kernel<<<device::blocks_for(task.channels, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(task);
}

}  // namespace tr
