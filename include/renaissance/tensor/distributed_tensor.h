/// A descriptor that owns nothing: the place of one tensor in the arena of every rank.
#pragma once

#include <array>

#include "renaissance/core/types.h"

namespace tr {

using TensorId = int32_t;
inline constexpr TensorId NO_TENSOR = -1;
/// Every offset is a multiple of this.
inline constexpr int64_t ARENA_ALIGNMENT_BYTES = 256;

/// Channels are stored padded to this multiple: 4 for 16-bit network inputs, 8 for 16-bit features and
/// INT8 masks of CUDA plans, 1 elsewhere.
int64_t channel_alignment(DType dtype, Region region, BackendKind backend);

/// Bytes of a tensor's slot: a pure function of what the tensor is. A 32-bit slot is exactly twice the
/// slot of the same tensor in 16 bits, so that one range cast converts a model. Throws ShapeError when
/// the size overflows 63 bits.
int64_t slot_bytes(const Shape& shape, DType dtype, Region region, BackendKind backend);

struct DistributedTensor {
  TensorId id = NO_TENSOR;
  Shape shape;                      ///< logical, NHWC
  DType dtype = DType::FP32;
  Region region = Region::DEFAULT;
  std::array<int64_t, 4> strides{};  ///< in elements, channel padding included
  int64_t offset = -1;              ///< bytes from the arena's base; -1 until the plan is finalized
  int64_t slot_bytes = 0;           ///< the largest over the variants

  /// Bytes from the first to one past the last element, channel padding included.
  int64_t data_bytes() const;
  /// Elements from the first to one past the last, channel padding included.
  int64_t physical_elements() const { return strides[0] * shape.n(); }
};
using DTensor = DistributedTensor;

/// A descriptor with strides and its own slot size, offset still -1.
DTensor make_dtensor(TensorId id, const Shape& shape, DType dtype, Region region, BackendKind backend);

}  // namespace tr
