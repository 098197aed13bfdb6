#include "ops/concat/concat_cuda.h"
#include "ops/support/device.cuh"

namespace tr {
namespace {

using device::Pack;

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 132 * 16;

/// A thread for each pack of V channels, padding among them.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS) copy_channels(ChannelCopy copy) {
  const int packs = (copy.channels + copy.zeros) / V;
  const int64_t items = copy.pixels * packs, threads = int64_t{gridDim.x} * blockDim.x;
  const T* in = static_cast<const T*>(copy.in);
  T* out = static_cast<T*>(copy.out);
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += threads) {
    const int64_t pixel = item / packs;
    const int channel = static_cast<int>(item - pixel * packs) * V;
    Pack<T, V> values{};
    if (channel + V <= copy.channels) {
      values = device::load<T, V>(in + pixel * copy.in_stride + channel);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i)
        values.v[i] = channel + i < copy.channels ? in[pixel * copy.in_stride + channel + i]
                                                  : device::from_float<T>(0.0f);
    }
    device::store(out + pixel * copy.out_stride + channel, values);
  }
}

/// Whether every pack lies on 16 bytes in both, and none is cut.
template <typename T>
bool takes_vectors(const ChannelCopy& copy) {
  constexpr int V = device::VECTOR<T>;
  const auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  return (copy.channels + copy.zeros) % V == 0 && copy.in_stride % V == 0 && copy.out_stride % V == 0 &&
         aligned(copy.in) && aligned(copy.out);
}

template <typename T, int V>
void launch(const ChannelCopy& copy, cudaStream_t stream) {
  const int64_t items = copy.pixels * ((copy.channels + copy.zeros) / V);
  copy_channels<T, V><<<device::blocks_for(items, THREADS, MOST_BLOCKS), THREADS, 0, stream>>>(copy);
}

}  // namespace

void launch_channel_copy(DType dtype, const ChannelCopy& copy, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    if (takes_vectors<T>(copy))
      launch<T, device::VECTOR<T>>(copy, stream);
    else
      launch<T, 1>(copy, stream);
  });
}

}  // namespace tr
