/// Tensor core instructions over 16-bit elements, and copies that run beside them. Device code only.
/// Shared memory is named by its 32-bit addresses.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tr::device {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8, a multiple of 16. It gets
/// elements 2 * (l % 4) and the next of row l / 4, or of column l / 4 with TRANSPOSE.
template <bool TRANSPOSE>
__device__ void load_matrices(uint32_t (&to)[4], uint32_t row) {
  if constexpr (TRANSPOSE)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}
/// Two matrices likewise; lanes 16 and up give any valid address.
template <bool TRANSPOSE>
__device__ void load_matrices(uint32_t (&to)[2], uint32_t row) {
  if constexpr (TRANSPOSE)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(row)
                 : "memory");
}

/// sum[16x8] += a[16x16] b[16x8]; lane l has rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next.
template <typename T>
__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Starts a copy of 8 or 16 bytes from global to shared memory; zeros instead where it is not `taken`, and
/// then `from` is any valid address.
template <int BYTES>
__device__ void copy_async(uint32_t to, const void* from, bool taken) {
  static_assert(BYTES == 8 || BYTES == 16);
  const auto address = static_cast<uint64_t>(__cvta_generic_to_global(from));
  const int bytes = taken ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(address), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(address), "r"(bytes)
                 : "memory");
}
/// Ends a group of this thread's copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most so many of the latest groups are still on their way.
template <int GROUPS>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

}  // namespace tr::device
