/// The vocabulary: Shape, DType, Region. Plain values, no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace tr {

enum class DType : uint8_t { FP32, FP16, BF16, INT32, INT8, UINT8 };

/// Bytes of one element.
int64_t dtype_bytes(DType dtype);
/// "fp32", "fp16", "bf16", "int32", "int8", "uint8".
std::string_view dtype_name(DType dtype);

/// Arithmetic of the features. Masters, statistics and accumulation are FP32 in all three.
enum class Precision : uint8_t { FP32, FP16, BF16 };
std::string_view precision_name(Precision precision);
/// Throws ValueError naming the known ones.
Precision parse_precision(std::string_view text);
/// AMP means 16-bit features, weight copies and gradients beside FP32 masters.
inline bool is_amp(Precision precision) { return precision != Precision::FP32; }
/// The type a `…_FP16` region holds, and features have under AMP; FP32 without AMP.
DType compute_dtype(Precision precision);

enum class BackendKind : uint8_t { CPU, CUDA };
inline constexpr int NUM_BACKENDS = 2;
std::string_view backend_name(BackendKind backend);
BackendKind parse_backend(std::string_view text);

/// A logical NHWC shape of four dims. Filters use the same struct as K,R,S,C (output channels first,
/// input channels innermost) and fully connected weights as out × 1 × 1 × in.
/// A zero, negative or overflowing dim throws ShapeError: a Shape that exists is valid.
class Shape {
 public:
  Shape() = default;  ///< 1 × 1 × 1 × 1
  Shape(int64_t n, int64_t h, int64_t w, int64_t c);

  int64_t n() const { return dims_[0]; }
  int64_t h() const { return dims_[1]; }
  int64_t w() const { return dims_[2]; }
  int64_t c() const { return dims_[3]; }
  int64_t dim(int axis) const { return dims_.at(static_cast<size_t>(axis)); }
  int64_t numel() const { return dims_[0] * dims_[1] * dims_[2] * dims_[3]; }
  /// "[N,H,W,C]"
  std::string str() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, 4> dims_{1, 1, 1, 1};
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The 74 regions of an arena, from low to high address. What each holds: docs/memory-plan.md.
/// "…_FP16" means the recipe's 16-bit type.
enum class Region : uint8_t {
  B_PREV_MEAN,
  B_PREV_VAR,
  B_NEXT_MEAN,
  B_NEXT_VAR,
  W_EQ_BIAS,
  W_EQ_SCALE,
  W_BN_BIAS,
  W_BN_WEIGHT,
  W_FC_BIAS,
  W_FC_WEIGHT,
  W_FIRST_CONV,
  W_DEEP_CONV,
  E_BN_BIAS,
  E_BN_WEIGHT,
  E_FC_BIAS,
  E_FC_WEIGHT,
  E_FIRST_CONV,
  E_DEEP_CONV,
  E_FC_WEIGHT_FP16,
  E_FIRST_CONV_FP16,
  E_DEEP_CONV_FP16,
  A_FC_WEIGHT,
  A_FIRST_CONV,
  A_DEEP_CONV,
  G_BN_BIAS,
  G_BN_WEIGHT,
  G_FC_BIAS,
  G_FC_WEIGHT,
  G_FIRST_CONV,
  G_DEEP_CONV,
  R_RESULT,
  G_FC_WEIGHT_FP16,
  G_FIRST_CONV_FP16,
  G_DEEP_CONV_FP16,
  GA_BN_BIAS,
  GA_BN_WEIGHT,
  GA_FC_BIAS,
  GA_FC_WEIGHT,
  GA_FIRST_CONV,
  GA_DEEP_CONV,
  M_BN_BIAS,
  M_BN_WEIGHT,
  M_FC_BIAS,
  M_FC_WEIGHT,
  M_FIRST_CONV,
  M_DEEP_CONV,
  V_BN_BIAS,
  V_BN_WEIGHT,
  V_FC_BIAS,
  V_FC_WEIGHT,
  V_FIRST_CONV,
  V_DEEP_CONV,
  N_FC_WEIGHT,
  N_FIRST_CONV,
  N_DEEP_CONV,
  I_A_LABEL,
  I_A_DATA,
  I_B_LABEL,
  I_B_DATA,
  F_FEATURE_FP32,
  F_GRAD_SLOT_FP32,
  F_FEATURE_FP16,
  F_GRAD_SLOT_FP16,
  S_SCALAR_FP32,
  S_SCALAR_FP16,
  S_SCALAR_INT32,
  S_SCALAR_INT8,
  S_MASK,
  T_TEMP_FP32,
  T_TEMP_FP16,
  T_TEMP_INT32,
  T_TEMP_INT8,
  R_PREDICTED_LABEL,
  R_RESULT_ACCUMULATED,
  END,  ///< sentinel: one past the last
  DEFAULT = B_PREV_MEAN,
};
/// Size of an array indexed by Region, the end sentinel included.
inline constexpr int NUM_REGIONS = 75;
static_assert(static_cast<int>(Region::END) + 1 == NUM_REGIONS);

std::string_view region_name(Region region);
/// Throws ValueError for a name that is not one of the 74.
Region parse_region(std::string_view name);
inline Region region_at(int index) { return static_cast<Region>(index); }
inline int index_of(Region region) { return static_cast<int>(region); }

/// What a region's existence depends on.
enum class RegionCondition : uint8_t {
  ALWAYS,
  BN_FOLDED,
  HAS_EMA,
  HAS_EMA_AND_AMP,
  AMP,
  NO_AMP,
  ACCUMULATION,
  FIRST_MOMENT,
  SECOND_MOMENT,
  LARS
};
std::string_view region_condition_name(RegionCondition condition);

/// What elements a region holds.
enum class RegionDType : uint8_t { FP32, SIXTEEN_BIT, INT32, INT8, IMAGE };

struct RegionTraits {
  std::string_view name;
  RegionDType dtype;
  RegionCondition condition;
  bool transient;  ///< F_*, S_MASK, T_*: alive only between two nodes of a step
};
const RegionTraits& region_traits(Region region);

/// Rounds up to a multiple of `multiple` (> 0).
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace tr
