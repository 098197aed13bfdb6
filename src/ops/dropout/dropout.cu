#include "ops/dropout/dropout_cuda.h"
#include "ops/support/elementwise.cuh"
#include "renaissance/core/philox.h"

namespace tr {
namespace {

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 132 * 8;
constexpr int GROUP = 8;  // elements of one thread, one byte of the mask; two blocks of Philox

/// Steps through the elements of a tensor.
struct Cursor {
  __device__ Cursor(const ElementMap& element_map, int64_t element)
      : map(element_map), pixel(element / map.channels), channel(element - pixel * map.channels) {}
  __device__ int64_t at() const { return pixel * map.stride + channel; }
  __device__ bool is_last_channel() const { return channel + 1 == map.channels; }
  __device__ void next() {
    if (++channel < map.channels) return;
    channel = 0;
    ++pixel;
  }

  ElementMap map;
  int64_t pixel, channel;
};

template <typename T>
struct Application {
  /// out = in where `bits` has a 1, scaled; else 0. For the elements of a group.
  __device__ void operator()(int64_t group, uint32_t bits) const {
    const int64_t first = group * GROUP;
    if (dense && first + GROUP <= elements)
      in_vectors(first, bits);
    else
      one_by_one(first, bits);
  }

  __device__ T value(T from, uint32_t bits, int bit) const {
    return device::from_float<T>((bits >> bit & 1) != 0 ? device::to_float(from) * scale : 0.0f);
  }

  __device__ void in_vectors(int64_t first, uint32_t bits) const {
    constexpr int V = device::VECTOR<T>;
#pragma unroll
    for (int part = 0; part < GROUP; part += V) {
      auto values = device::load<T, V>(in + first + part);
#pragma unroll
      for (int i = 0; i < V; ++i) values.v[i] = value(values.v[i], bits, part + i);
      device::store(out + first + part, values);
    }
  }

  __device__ void one_by_one(int64_t first, uint32_t bits) const {
    Cursor from(in_map, first), to(out_map, first);
    for (int i = 0; i < GROUP && first + i < elements; ++i, from.next(), to.next()) {
      out[to.at()] = value(in[from.at()], bits, i);
      if (!to.is_last_channel()) continue;
      for (int64_t channel = out_map.channels; channel < out_map.stride; ++channel)
        out[to.pixel * out_map.stride + channel] = device::from_float<T>(0.0f);
    }
  }

  const T* in;
  T* out;
  ElementMap in_map, out_map;
  int64_t elements;
  float scale;
  bool dense;  ///< element e is at e in both
};

template <typename T>
Application<T> application(const ElementwiseOperands& operands, float scale) {
  return {static_cast<const T*>(operands.in[0]),
          static_cast<T*>(operands.out),
          operands.in_map[0],
          operands.out_map,
          operands.elements,
          scale,
          operands.in_map[0].is_dense() && operands.out_map.is_dense()};
}

/// The mask of a group; bits past the last element are zero.
__device__ uint32_t keep_bits(const Philox& random, uint32_t stream, const DropoutDraw& draw, int64_t group,
                              int64_t elements) {
  uint32_t bits = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint64_t index = draw.index_base ^ static_cast<uint64_t>(2 * group + half);
    const Philox::Block words = random.at(RandomPurpose::DROPOUT, stream, index);
#pragma unroll
    for (int word = 0; word < 4; ++word)
      bits |= uint32_t{words[word] >> 8 >= draw.threshold} << (4 * half + word);
  }
  const int64_t count = elements - group * GROUP;
  if (count >= GROUP) return bits;
  return count <= 0 ? 0 : bits & ((1u << count) - 1);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    dropout_forward(Application<T> apply, DropoutMask mask, DropoutDraw draw) {
  const Philox random(static_cast<uint32_t>(*draw.seed));
  const auto stream = static_cast<uint32_t>(*draw.counter);
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; group < mask.bytes; group += threads) {
    const uint32_t bits = keep_bits(random, stream, draw, group, apply.elements);
    mask.bits[group] = static_cast<uint8_t>(bits);
    apply(group, bits);
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) dropout_backward(Application<T> apply, const uint8_t* mask) {
  const int64_t groups = (apply.elements + GROUP - 1) / GROUP, threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; group < groups; group += threads)
    apply(group, mask[group]);
}

}  // namespace

void launch_dropout_forward(const ElementwiseOperands& operands, const DropoutMask& mask,
                            const DropoutDraw& draw, float scale, cudaStream_t stream) {
  const unsigned blocks = device::blocks_for(mask.bytes, THREADS, MOST_BLOCKS);
  device::for_dtype(operands.dtype, [&](auto type) {
    using T = decltype(type);
    dropout_forward<<<blocks, THREADS, 0, stream>>>(application<T>(operands, scale), mask, draw);
  });
}

void launch_dropout_backward(const ElementwiseOperands& operands, const uint8_t* mask, float scale,
                             cudaStream_t stream) {
  const unsigned blocks = device::blocks_for((operands.elements + GROUP - 1) / GROUP, THREADS, MOST_BLOCKS);
  device::for_dtype(operands.dtype, [&](auto type) {
    using T = decltype(type);
    dropout_backward<<<blocks, THREADS, 0, stream>>>(application<T>(operands, scale), mask);
  });
}

}  // namespace tr
