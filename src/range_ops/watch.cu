#include <limits>

#include "ops/support/device.cuh"
#include "range_ops/watch_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 512;
/// Enough to keep the memory of the largest card busy; few, since each ends with an atomic on one address.
constexpr int MOST_BLOCKS = 264;
constexpr int LOADS = 4;  ///< in flight per thread
/// The counter holds blocks that have ended in its low half, and blocks that found something in its high
/// half.
constexpr int32_t FOUND = 1 << 16;
static_assert(MOST_BLOCKS < FOUND / 2);

/// The exponents of the elements in 32 bits, and 1 in the lowest place of each: where an exponent is all
/// ones, the sum carries into the sign's place.
struct ExponentBits {
  uint32_t mask, ones;
};

struct Scan {
  const uint4* vectors;
  int64_t count;
  ExponentBits bits;
};

struct WatchKernelTask {
  Scan scans[WatchTask::MOST_RANGES];
  bool checks, adapts_scale, advances;
  WatchScalars scalars;
};

__device__ uint32_t carries(uint32_t word, ExponentBits bits) { return (word & bits.mask) + bits.ones; }

__device__ bool holds_not_finite(const Scan& scan) {
  const ExponentBits bits = scan.bits;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  uint32_t found = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < scan.count;
       i += LOADS * stride) {
    uint4 loaded[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; ++k)
      loaded[k] = i + k * stride < scan.count ? scan.vectors[i + k * stride] : uint4{0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < LOADS; ++k)
      found |= carries(loaded[k].x, bits) | carries(loaded[k].y, bits) | carries(loaded[k].z, bits) |
               carries(loaded[k].w, bits);
  }
  return (found & (bits.mask + bits.ones)) != 0;  // the signs' places
}

/// Whether this block is the last to end, for all its threads; `any` then says whether a block found
/// something. What the other blocks did before is visible.
__device__ bool ends_last(int32_t* counter, bool found, bool& any) {
  __shared__ int32_t ended;
  const int32_t mine = __syncthreads_or(found) != 0 ? FOUND + 1 : 1;
  if (threadIdx.x == 0) {
    __threadfence();
    ended = atomicAdd(counter, mine) + mine;
    __threadfence();
  }
  __syncthreads();
  if (ended % FOUND != static_cast<int32_t>(gridDim.x)) return false;
  any = ended >= FOUND;
  if (threadIdx.x == 0) *counter = 0;
  return true;
}

__device__ void adapt_scale(const WatchScalars& s, bool nan) {
  const float scale = *s.loss_scale;
  if (s.gradient_factor != nullptr) *s.gradient_factor = 1.0f / scale;
  if (nan) {
    if (s.growth_steps > 0) *s.loss_scale = fmaxf(scale * 0.5f, 1.0f);
    *s.clean_steps = 0;
    return;
  }
  const int32_t clean_steps = *s.clean_steps + 1;
  const bool grows = s.growth_steps > 0 && clean_steps >= s.growth_steps;
  *s.clean_steps = grows ? 0 : clean_steps;
  // Doubling stops where the scale itself would overflow.
  if (grows) *s.loss_scale = fminf(scale * 2.0f, std::numeric_limits<float>::max() / 2.0f);
}

__device__ void advance_step(const WatchScalars& s, int32_t step, bool nan) {
  ++*s.dropout_counter;
  if (nan) {
    ++*s.skipped_steps;
    return;
  }
  *s.learning_rate = static_cast<float>(s.schedule.at(step));
  *s.step = step + 1;
}

__device__ float bias_correction(float beta, int32_t steps) {
  return static_cast<float>(1.0 - pow(static_cast<double>(beta), static_cast<double>(steps)));
}

/// By the last block. Four warps, so that the slow functions in double run side by side.
__device__ void conclude(const WatchKernelTask& task, bool found) {
  const WatchScalars& s = task.scalars;
  const bool nan = task.checks ? found : *s.nan_flag != 0;
  const int32_t step = *s.step;
  __syncthreads();  // all have read what one of them changes
  switch (threadIdx.x) {
    case 0:
      if (task.checks) *s.nan_flag = nan ? 1 : 0;
      if (task.adapts_scale) adapt_scale(s, nan);
      break;
    case 32:
      if (task.advances) advance_step(s, step, nan);
      break;
    case 64:
      if (task.advances && !nan) *s.bias_correction1 = bias_correction(*s.beta1, step + 1);
      break;
    case 96:
      if (task.advances && !nan) *s.bias_correction2 = bias_correction(*s.beta2, step + 1);
      break;
    default:
      break;
  }
}

__global__ void __launch_bounds__(THREADS) watch_kernel(const __grid_constant__ WatchKernelTask task) {
  bool found = false;
  for (const Scan& scan : task.scans) found |= holds_not_finite(scan);
  bool any = false;
  if (ends_last(task.scalars.sync_counter, found, any)) conclude(task, any);
}

__global__ void __launch_bounds__(THREADS)
    unscale_kernel(float* gradients, int64_t elements, const __grid_constant__ WatchScalars scalars) {
  const bool nan = *scalars.nan_flag != 0;
  if (!nan) {
    const float factor = 1.0f / *scalars.loss_scale;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS * 4;
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) * 4; i < elements;
         i += stride) {
      auto pack = device::load<float, 4>(gradients + i);
      for (float& value : pack.v) value *= factor;
      device::store(gradients + i, pack);
    }
  }
  bool any = false;
  if (ends_last(scalars.sync_counter, false, any) && threadIdx.x == 0) adapt_scale(scalars, nan);
}

ExponentBits exponent_bits(DType dtype) {
  switch (dtype) {
    case DType::FP16:
      return {0x7c007c00u, 0x04000400u};
    case DType::BF16:
      return {0x7f807f80u, 0x00800080u};
    default:
      return {0x7f800000u, 0x00800000u};
  }
}

}  // namespace

void launch_watch(const WatchTask& task, cudaStream_t stream) {
  WatchKernelTask kernel_task{{}, task.checks, task.adapts_scale, task.advances, task.scalars};
  int64_t vectors = 0;
  for (int i = 0; i < WatchTask::MOST_RANGES; ++i) {
    const WatchedRange& range = task.ranges[i];
    const int64_t count = range.bytes / static_cast<int64_t>(sizeof(uint4));
    kernel_task.scans[i] = {static_cast<const uint4*>(range.data), count, exponent_bits(range.dtype)};
    vectors += count;
  }
  watch_kernel<<<device::blocks_for(vectors, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(kernel_task);
}

void launch_unscale(float* gradients, int64_t elements, const WatchScalars& scalars, cudaStream_t stream) {
  unscale_kernel<<<device::blocks_for(elements / 4, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(
      gradients, elements, scalars);
}

}  // namespace tr
