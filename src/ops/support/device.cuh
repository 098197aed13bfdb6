/// What device code shares: element types, vectors of 16 bytes, reductions in a fixed order.
/// Device code only; a .cu file includes it, and offers plain launch functions in a header of its own.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "renaissance/core/error.h"
#include "renaissance/core/types.h"

namespace tr::device {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Rounds to nearest even; what does not fit FP16 becomes infinite, NaN stays NaN.
template <typename T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// N elements loaded and stored at once; the address must be a multiple of their size.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};
template <typename T, int N>
__device__ inline Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
/// Spelled out for 16 bytes, where nvcc may otherwise store element by element.
template <typename T, int N>
__device__ inline void store(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16) {
    uint4 words;
    memcpy(&words, &pack, sizeof words);
    asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}
/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int VECTOR = 16 / sizeof(T);

/// Sum over the warp, in a fixed order; every lane has it.
__device__ inline float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// Blocks of `threads` for `items`, at most `most`.
inline unsigned blocks_for(int64_t items, int threads, int64_t most) {
  const int64_t blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

/// body(T{}) for the C++ type of `dtype`: float, __half or __nv_bfloat16. TypeError for others.
template <typename Body>
void for_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::FP32:
      return body(float{});
    case DType::FP16:
      return body(__half{});
    case DType::BF16:
      return body(__nv_bfloat16{});
    default:
      throw Error(ErrorKind::TypeError, "cuda kernel: fp32, fp16 or bf16 expected");
  }
}

}  // namespace tr::device
