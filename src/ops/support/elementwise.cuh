/// Elementwise kernels: out = function(in0) or function(in0, in1), computed in FP32, with zeros in the
/// output's channel padding. `out` may be one of the inputs.
///   launch_elementwise<2>(operands, Add{}, true, stream);
/// Where all operands have the same layout, the kernel runs over everything as one array, padding too, in
/// vectors of 16 bytes.
#pragma once

#include "ops/support/device.cuh"
#include "ops/support/elementwise.h"

namespace tr::device {

inline constexpr int ELEMENTWISE_THREADS = 256;
inline constexpr int64_t ELEMENTWISE_BLOCKS = 132 * 8;  ///< enough to fill a device, each loops over the rest

template <typename T, int INPUTS>
struct TypedOperands {
  const T* in[INPUTS];
  T* out;
};

template <typename T, typename Function>
__device__ T apply_function(Function function, const T (&in)[1]) {
  return from_float<T>(function(to_float(in[0])));
}
template <typename T, typename Function>
__device__ T apply_function(Function function, const T (&in)[2]) {
  return from_float<T>(function(to_float(in[0]), to_float(in[1])));
}

template <typename T, int INPUTS, typename Function>
__global__ void __launch_bounds__(ELEMENTWISE_THREADS)
    elementwise_flat(TypedOperands<T, INPUTS> operands, int64_t items, Function function) {
  constexpr int V = VECTOR<T>,
                TOGETHER = 4 / INPUTS;  // packs of each input that a thread loads before it computes
  const int64_t packs = items / V, threads = int64_t{gridDim.x} * blockDim.x;
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t first = thread; first < packs; first += TOGETHER * threads) {
    Pack<T, V> in[TOGETHER][INPUTS];
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k)
      if (first + k * threads < packs)
#pragma unroll
        for (int input = 0; input < INPUTS; ++input)
          in[k][input] = load<T, V>(operands.in[input] + (first + k * threads) * V);
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k) {
      if (first + k * threads >= packs) break;
      Pack<T, V> out;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        T values[INPUTS];
#pragma unroll
        for (int input = 0; input < INPUTS; ++input) values[input] = in[k][input].v[i];
        out.v[i] = apply_function<T>(function, values);
      }
      store(operands.out + (first + k * threads) * V, out);
    }
  }
  if (const int64_t rest = packs * V + thread; rest < items) {
    T values[INPUTS];
    for (int input = 0; input < INPUTS; ++input) values[input] = operands.in[input][rest];
    operands.out[rest] = apply_function<T>(function, values);
  }
}

template <int INPUTS>
struct InputMaps {
  ElementMap map[INPUTS];
};

/// For operands of different layouts: `items` places of the output, its padding among them.
template <typename T, int INPUTS, typename Function>
__global__ void __launch_bounds__(ELEMENTWISE_THREADS)
    elementwise_mapped(TypedOperands<T, INPUTS> operands, InputMaps<INPUTS> maps, ElementMap out_map,
                       int64_t items, Function function) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items; i += threads) {
    const int64_t pixel = i / out_map.stride, channel = i - pixel * out_map.stride;
    if (channel >= out_map.channels) {
      operands.out[i] = from_float<T>(0.0f);
      continue;
    }
    const int64_t element = pixel * out_map.channels + channel;
    T values[INPUTS];
    for (int input = 0; input < INPUTS; ++input) {
      const ElementMap& map = maps.map[input];
      const int64_t in_pixel = element / map.channels;
      values[input] = operands.in[input][in_pixel * map.stride + element - in_pixel * map.channels];
    }
    operands.out[i] = apply_function<T>(function, values);
  }
}

/// `keeps_zero`: the function of zeros is +0, so that padding may be computed like anything else.
template <int INPUTS, typename Function>
void launch_elementwise(const ElementwiseOperands& operands, Function function, bool keeps_zero,
                        cudaStream_t stream) {
  const ElementMap& out_map = operands.out_map;
  const int64_t items = operands.elements / out_map.channels * out_map.stride;
  InputMaps<INPUTS> maps;
  bool flat = keeps_zero || out_map.is_dense();
  for (int input = 0; input < INPUTS; ++input) {
    maps.map[input] = operands.in_map[static_cast<size_t>(input)];
    flat = flat && maps.map[input].same_places(out_map);
  }
  for_dtype(operands.dtype, [&](auto type) {
    using T = decltype(type);
    TypedOperands<T, INPUTS> typed;
    for (int input = 0; input < INPUTS; ++input)
      typed.in[input] = static_cast<const T*>(operands.in[static_cast<size_t>(input)]);
    typed.out = static_cast<T*>(operands.out);
    if (flat) {
      const unsigned blocks = blocks_for(items / VECTOR<T>, ELEMENTWISE_THREADS, ELEMENTWISE_BLOCKS);
      elementwise_flat<<<blocks, ELEMENTWISE_THREADS, 0, stream>>>(typed, items, function);
    } else {
      const unsigned blocks = blocks_for(items, ELEMENTWISE_THREADS, ELEMENTWISE_BLOCKS);
      elementwise_mapped<<<blocks, ELEMENTWISE_THREADS, 0, stream>>>(typed, maps, out_map, items, function);
    }
  });
}

}  // namespace tr::device
