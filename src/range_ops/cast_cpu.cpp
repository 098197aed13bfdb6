// RANGE_CAST_FP32_TO_FP16 and back: a whole block of twins, to and from the recipe's 16-bit type. Rounds to
// nearest even; what does not fit FP16 becomes infinite, NaN stays NaN.
#include <bit>
#include <cmath>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float from_bf16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyintf(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

float from_fp16(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16, exponent = value >> 10 & 0x1fu,
                 fraction = value & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0)
    return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | (exponent + 112u) << 23 | fraction << 13);
}

template <typename From, typename To, typename Convert>
Call cast(const void* from, void* to, int64_t elements, Convert convert) {
  return [x = static_cast<const From*>(from), y = static_cast<To*>(to), elements, convert] {
    parallel_pieces(elements, [=](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = convert(x[i]);
    });
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
  const bool bf16 = binding.plan.config().precision == Precision::BF16;
  if (narrows)
    return bf16 ? cast<float, uint16_t>(x, y, elements, to_bf16)
                : cast<float, uint16_t>(x, y, elements, to_fp16);
  return bf16 ? cast<uint16_t, float>(x, y, elements, from_bf16)
              : cast<uint16_t, float>(x, y, elements, from_fp16);
}

}  // namespace tr
