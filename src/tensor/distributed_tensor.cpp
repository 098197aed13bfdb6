#include "renaissance/tensor/distributed_tensor.h"

#include <limits>

#include "core/sixteen_bits.h"
#include "renaissance/core/error.h"

namespace tr {

namespace {

/// Spare bytes after the last element, so that vector kernels may read past it.
constexpr int64_t SPARE_BYTES = 16;

int64_t checked_mul(int64_t a, int64_t b, const Shape& shape) {
  TR_CHECK(b == 0 || a <= std::numeric_limits<int64_t>::max() / 8 / b, ShapeError,
           cat("tensor ", shape, " needs more than 2^60 bytes"));
  return a * b;
}

int64_t physical_elements(const Shape& shape, int64_t align_c) {
  const int64_t channels = round_up(shape.c(), align_c);
  return checked_mul(checked_mul(checked_mul(shape.n(), shape.h(), shape), shape.w(), shape), channels,
                     shape);
}

}  // namespace

int64_t channel_alignment(DType dtype, Region region, BackendKind backend) {
  const bool is_input = region == Region::I_A_DATA || region == Region::I_B_DATA;
  if (is_16bit(dtype) && is_input) return 4;
  if (backend != BackendKind::CUDA) return 1;
  const bool is_feature = region == Region::F_FEATURE_FP16 || region == Region::F_GRAD_SLOT_FP16;
  if (is_16bit(dtype) && is_feature) return 8;
  if (dtype == DType::INT8 && region == Region::S_MASK) return 8;
  return 1;
}

int64_t slot_bytes(const Shape& shape, DType dtype, Region region, BackendKind backend) {
  const int64_t elements = physical_elements(shape, channel_alignment(dtype, region, backend));
  switch (dtype_bytes(dtype)) {
    case 1:
      return round_up(elements + SPARE_BYTES, ARENA_ALIGNMENT_BYTES);
    case 2:
      return round_up(2 * elements + SPARE_BYTES, ARENA_ALIGNMENT_BYTES);
    default:
      return 2 * round_up(2 * elements + SPARE_BYTES, ARENA_ALIGNMENT_BYTES);
  }
}

int64_t DistributedTensor::data_bytes() const { return physical_elements() * dtype_bytes(dtype); }

DTensor make_dtensor(TensorId id, const Shape& shape, DType dtype, Region region, BackendKind backend) {
  DTensor tensor;
  tensor.id = id;
  tensor.shape = shape;
  tensor.dtype = dtype;
  tensor.region = region;
  tensor.slot_bytes = slot_bytes(shape, dtype, region, backend);
  const int64_t c = round_up(shape.c(), channel_alignment(dtype, region, backend));
  tensor.strides = {shape.h() * shape.w() * c, shape.w() * c, c, 1};
  return tensor;
}

}  // namespace tr
