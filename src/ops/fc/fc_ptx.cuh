/// Instructions without a C++ form that the fully connected layers use: those of support/mma.cuh over
/// pointers, and blocks of a cluster that share their memory.
#pragma once

#include <cstdint>

#include "ops/support/device.cuh"
#include "ops/support/mma.cuh"

namespace tr::fully_connected {

using device::commit_copies;
using device::multiply_add;
using device::shared_address;
using device::wait_for_copies;

/// Starts to copy 16 bytes; unless `inside`, `global` is not read and they become zeros.
__device__ inline void copy_async(void* shared, const void* global, bool inside) {
  device::copy_async<16>(shared_address(shared), global, inside);
}
/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
template <bool TRANSPOSE, typename T>
__device__ void load_matrices(uint32_t (&to)[4], const T* row) {
  device::load_matrices<TRANSPOSE>(to, shared_address(row));
}

/// The block's place in its cluster.
__device__ inline int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
/// A barrier of all threads of the cluster in two halves; what a thread stored before it arrived, all see
/// after they waited.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

/// Stores 16 bytes where `shared` is in block `rank` of the cluster.
__device__ inline void store_to_peer(void* shared, int rank, const device::Pack<uint32_t, 4>& words) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(shared)), "r"(rank));
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(words.v[0]),
               "r"(words.v[1]), "r"(words.v[2]), "r"(words.v[3])
               : "memory");
}

}  // namespace tr::fully_connected
