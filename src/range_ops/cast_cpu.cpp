// RANGE_CAST_FP32_TO_FP16 and back: a whole block of twins, to and from the recipe's 16-bit type. Rounds to
// nearest even; what does not fit FP16 becomes infinite, NaN stays NaN.
#include "core/parallel.h"
#include "core/sixteen_bits.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

template <typename Type>
Call cast_down(Type type, const std::byte* from, std::byte* to, int64_t elements) {
  return [=, x = reinterpret_cast<const float*>(from), y = reinterpret_cast<uint16_t*>(to)] {
    parallel_pieces(elements,
                    [=](int64_t first, int64_t last) { narrow(type, x + first, y + first, last - first); });
  };
}

template <typename Type>
Call cast_up(Type type, const std::byte* from, std::byte* to, int64_t elements) {
  return [=, x = reinterpret_cast<const uint16_t*>(from), y = reinterpret_cast<float*>(to)] {
    parallel_pieces(elements,
                    [=](int64_t first, int64_t last) { widen(type, x + first, y + first, last - first); });
  };
}

}  // namespace

Call bind_cast_cpu(const RangeBinding& binding) {
  const GraphNode& node = binding.node;
  const auto [from, from_bytes] = resolve_region_bounds(binding.plan, node.in.at(0));
  const auto [to, to_bytes] = resolve_region_bounds(binding.plan, node.out.at(0));
  const bool narrows = node.range_op == RangeOp::RANGE_CAST_FP32_TO_FP16;
  const int64_t wide_bytes = narrows ? from_bytes : to_bytes, narrow_bytes = narrows ? to_bytes : from_bytes;
  TR_CHECK(wide_bytes == 2 * narrow_bytes, ShapeError,
           cat(node.name, ": ", wide_bytes, " bytes of FP32 are not twice ", narrow_bytes, " of 16 bits"));
  if (wide_bytes == 0) return {};
  const int64_t elements = narrow_bytes / 2;
  const std::byte* x = binding.base + from;
  std::byte* y = binding.base + to;
  return with_16bit(compute_dtype(binding.plan.config().precision), [=](auto type) {
    return narrows ? cast_down(type, x, y, elements) : cast_up(type, x, y, elements);
  });
}

}  // namespace tr
