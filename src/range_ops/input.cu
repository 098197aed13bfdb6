#include <algorithm>

#include "ops/support/device.cuh"
#include "range_ops/input_cuda.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 1056;
constexpr int PIXEL_VALUES = 256;
/// Channels of one launch: their tables fit in shared memory. More channels take several launches.
constexpr int MOST_CHANNELS = 16;

struct UnpackTask {
  const uint8_t* pixels;  ///< the first channel of this launch
  void* data;             ///< likewise
  const int32_t* labels_from;
  int32_t* labels_to;
  int64_t labels;  ///< 0: another launch copies them, and the BatchMix
  const BatchMix* mix_from;
  BatchMix* mix_to;
  int64_t samples, height_width, width;  ///< of a mixed batch
  int64_t num_pixels, channels, pixel_stride;
  int count;   ///< channels of this launch
  int groups;  ///< of adjoining elements in each pixel that this launch writes, padding included
  float mean[MOST_CHANNELS], deviation[MOST_CHANNELS];
};

/// Adjoining channels of one pixel that one thread writes at once.
template <typename T>
constexpr int WIDTH = sizeof(T) == 2 ? 4 : 1;

/// What becomes of every pixel value, channel by channel: divisions rounded as on the CPU, and done once.
template <typename T>
__device__ void fill_table(const UnpackTask& task, T* table) {
  static_assert(THREADS == PIXEL_VALUES);
  const float scaled = __fdiv_rn(static_cast<float>(threadIdx.x), 255.0f);
  for (int c = 0; c < task.count; ++c)
    table[c * PIXEL_VALUES + threadIdx.x] =
        device::from_float<T>(__fdiv_rn(__fsub_rn(scaled, task.mean[c]), task.deviation[c]));
  __syncthreads();
}

/// An item is WIDTH channels of a pixel. CHANNELS: of the image, where the compiler may know them, else 0.
template <typename T, int CHANNELS>
__global__ void __launch_bounds__(THREADS) unpack_kernel(const __grid_constant__ UnpackTask task) {
  constexpr int N = WIDTH<T>;
  constexpr int UNROLL = CHANNELS > 0 ? 4 : 2;  // items in flight
  __shared__ T table[MOST_CHANNELS * PIXEL_VALUES];
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = thread; i < task.labels; i += stride) task.labels_to[i] = task.labels_from[i];
  fill_table(task, table);

  const int count = CHANNELS > 0 ? CHANNELS : task.count;
  const int groups = CHANNELS > 0 ? (CHANNELS + N - 1) / N : task.groups;
  const int64_t image_channels = CHANNELS > 0 ? CHANNELS : task.channels;
  const int64_t items = task.num_pixels * groups;
  for (int64_t first = thread; first < items; first += UNROLL * stride) {
    int64_t pixel[UNROLL];
    int channel[UNROLL];
    uint8_t value[UNROLL][N];
    // Past the last item and the last channel the last one is read again: loads without branches.
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t item = min(first + u * stride, items - 1);
      pixel[u] = item / groups;
      channel[u] = static_cast<int>(item - pixel[u] * groups) * N;
      const uint8_t* from = task.pixels + pixel[u] * image_channels;
#pragma unroll
      for (int n = 0; n < N; ++n) value[u][n] = from[min(channel[u] + n, count - 1)];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (first + u * stride >= items) break;
      device::Pack<T, N> pack;
#pragma unroll
      for (int n = 0; n < N; ++n)
        pack.v[n] = channel[u] + n < count ? table[(channel[u] + n) * PIXEL_VALUES + value[u][n]]
                                           : device::from_float<T>(0.0f);
      device::store(static_cast<T*>(task.data) + pixel[u] * task.pixel_stride + channel[u], pack);
    }
  }
}

/// The arithmetic of mixed_pixel(), each operation rounded by itself.
__device__ float blend(float own, float partner, float share) {
  return __fadd_rn(__fmul_rn(1.0f - share, own), __fmul_rn(share, partner));
}

/// Likewise for batches that may be mixed: a pixel comes from the sample, from its partner, or from both.
template <typename T>
__global__ void __launch_bounds__(THREADS) unpack_mixed_kernel(const __grid_constant__ UnpackTask task) {
  constexpr int N = WIDTH<T>;
  __shared__ float table[MOST_CHANNELS * PIXEL_VALUES];
  const BatchMix mix = *task.mix_from;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = thread; i < task.labels; i += stride) task.labels_to[i] = task.labels_from[i];
  if (thread == 0 && task.labels > 0) *task.mix_to = mix;
  fill_table(task, table);

  for (int64_t item = thread; item < task.num_pixels * task.groups; item += stride) {
    const int64_t pixel = item / task.groups, sample = pixel / task.height_width;
    const int64_t place = pixel - sample * task.height_width, row = place / task.width;
    const int channel = static_cast<int>(item - pixel * task.groups) * N;
    const bool boxed = mix.has_box();
    const bool of_partner = mix.mixes() && boxed && mix.in_box(row, place - row * task.width);
    const bool of_both = mix.mixes() && !boxed;
    const int64_t partner = (task.samples - 1 - sample) * task.height_width + place;
    const uint8_t* own = task.pixels + (of_partner ? partner : pixel) * task.channels;
    const uint8_t* other = task.pixels + partner * task.channels;
    device::Pack<T, N> pack;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int c = channel + n;
      float value = 0.0f;
      if (c < task.count) {
        value = table[c * PIXEL_VALUES + own[c]];
        if (of_both) value = blend(value, table[c * PIXEL_VALUES + other[c]], mix.share);
      }
      pack.v[n] = device::from_float<T>(value);
    }
    device::store(static_cast<T*>(task.data) + pixel * task.pixel_stride + channel, pack);
  }
}

template <typename T>
void launch_group(const UnpackTask& task, cudaStream_t stream) {
  const unsigned blocks =
      device::blocks_for(std::max(task.num_pixels * task.groups, task.labels), 4 * THREADS, MOST_BLOCKS);
  if (task.mix_from != nullptr)
    unpack_mixed_kernel<T><<<blocks, THREADS, 0, stream>>>(task);
  else if (task.channels == 1)
    unpack_kernel<T, 1><<<blocks, THREADS, 0, stream>>>(task);
  else if (task.channels == 3)
    unpack_kernel<T, 3><<<blocks, THREADS, 0, stream>>>(task);
  else
    unpack_kernel<T, 0><<<blocks, THREADS, 0, stream>>>(task);
}

}  // namespace

void launch_unpack_input(const RawBatch& raw, std::span<const float> mean, std::span<const float> deviation,
                         const InputTensors& input, cudaStream_t stream) {
  for (const auto& values : {mean, deviation})
    TR_CHECK(values.empty() || values.size() == static_cast<size_t>(raw.channels), ValueError,
             cat("input unpack: ", values.size(), " values of mean or deviation for ", raw.channels,
                 " channels; give one per channel, or none"));
  device::for_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    for (int64_t first = 0; first < raw.channels; first += MOST_CHANNELS) {
      UnpackTask task{};
      task.pixels = reinterpret_cast<const uint8_t*>(raw.data + raw.label_bytes) + first;
      task.data = static_cast<T*>(input.data) + first;
      task.labels_from = reinterpret_cast<const int32_t*>(raw.data);
      task.labels_to = input.labels;
      task.labels = first == 0 ? raw.samples : 0;
      task.mix_from = raw.mix;
      task.mix_to = input.mix;
      task.samples = raw.samples;
      task.height_width = raw.height_width;
      task.width = raw.width;
      task.num_pixels = raw.samples * raw.height_width;
      task.channels = raw.channels;
      task.pixel_stride = input.pixel_stride;
      task.count = static_cast<int>(std::min<int64_t>(raw.channels - first, MOST_CHANNELS));
      task.groups = static_cast<int>(std::min<int64_t>(input.pixel_stride - first, MOST_CHANNELS)) / WIDTH<T>;
      for (int c = 0; c < task.count; ++c) {
        const auto channel = static_cast<size_t>(first + c);
        task.mean[c] = mean.empty() ? 0.0f : mean[channel];
        task.deviation[c] = deviation.empty() ? 1.0f : deviation[channel];
      }
      launch_group<T>(task, stream);
    }
  });
}

}  // namespace tr
