#include "renaissance/core/types.h"

#include <limits>
#include <ostream>

#include "renaissance/core/error.h"

namespace tr {

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::FP32:
    case DType::INT32:
      return 4;
    case DType::FP16:
    case DType::BF16:
      return 2;
    case DType::INT8:
    case DType::UINT8:
      return 1;
  }
  throw Error(ErrorKind::TypeError, cat("unknown dtype ", static_cast<int>(dtype)));
}

std::string_view dtype_name(DType dtype) {
  constexpr std::array<std::string_view, 6> NAMES{"fp32", "fp16", "bf16", "int32", "int8", "uint8"};
  return NAMES.at(static_cast<size_t>(dtype));
}

std::string_view precision_name(Precision precision) { return dtype_name(compute_dtype(precision)); }

Precision parse_precision(std::string_view text) {
  for (const Precision precision : {Precision::FP32, Precision::FP16, Precision::BF16})
    if (text == precision_name(precision)) return precision;
  throw Error(ErrorKind::ValueError, cat("precision '", text, "' is not known; use fp32, fp16 or bf16"));
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::FP32:
      return DType::FP32;
    case Precision::FP16:
      return DType::FP16;
    case Precision::BF16:
      return DType::BF16;
  }
  throw Error(ErrorKind::ValueError, cat("unknown precision ", static_cast<int>(precision)));
}

std::string_view backend_name(BackendKind backend) { return backend == BackendKind::CPU ? "cpu" : "cuda"; }

BackendKind parse_backend(std::string_view text) {
  if (text == "cpu") return BackendKind::CPU;
  if (text == "cuda") return BackendKind::CUDA;
  throw Error(ErrorKind::ValueError, cat("device '", text, "' is not known; use cpu or cuda"));
}

Shape::Shape(int64_t n, int64_t h, int64_t w, int64_t c) : dims_{n, h, w, c} {
  int64_t product = 1;
  for (const int64_t dim : dims_) {
    TR_CHECK(dim > 0, ShapeError,
             cat("shape ", str(), " has a dim of ", dim, "; every dim must be at least 1"));
    TR_CHECK(dim <= std::numeric_limits<int64_t>::max() / product, ShapeError,
             cat("shape ", str(), " has more than 2^63 elements"));
    product *= dim;
  }
}

std::string Shape::str() const {
  return cat('[', dims_[0], ',', dims_[1], ',', dims_[2], ',', dims_[3], ']');
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

namespace {

using C = RegionCondition;
using D = RegionDType;

constexpr std::array<RegionTraits, NUM_REGIONS - 1> REGIONS{{
    {"B_PREV_MEAN", D::FP32, C::ALWAYS, false},
    {"B_PREV_VAR", D::FP32, C::ALWAYS, false},
    {"B_NEXT_MEAN", D::FP32, C::ALWAYS, false},
    {"B_NEXT_VAR", D::FP32, C::ALWAYS, false},
    {"W_EQ_BIAS", D::FP32, C::BN_FOLDED, false},
    {"W_EQ_SCALE", D::FP32, C::BN_FOLDED, false},
    {"W_BN_BIAS", D::FP32, C::ALWAYS, false},
    {"W_BN_WEIGHT", D::FP32, C::ALWAYS, false},
    {"W_FC_BIAS", D::FP32, C::ALWAYS, false},
    {"W_FC_WEIGHT", D::FP32, C::ALWAYS, false},
    {"W_FIRST_CONV", D::FP32, C::ALWAYS, false},
    {"W_DEEP_CONV", D::FP32, C::ALWAYS, false},
    {"E_BN_BIAS", D::FP32, C::HAS_EMA, false},
    {"E_BN_WEIGHT", D::FP32, C::HAS_EMA, false},
    {"E_FC_BIAS", D::FP32, C::HAS_EMA, false},
    {"E_FC_WEIGHT", D::FP32, C::HAS_EMA, false},
    {"E_FIRST_CONV", D::FP32, C::HAS_EMA, false},
    {"E_DEEP_CONV", D::FP32, C::HAS_EMA, false},
    {"E_FC_WEIGHT_FP16", D::SIXTEEN_BIT, C::HAS_EMA_AND_AMP, false},
    {"E_FIRST_CONV_FP16", D::SIXTEEN_BIT, C::HAS_EMA_AND_AMP, false},
    {"E_DEEP_CONV_FP16", D::SIXTEEN_BIT, C::HAS_EMA_AND_AMP, false},
    {"A_FC_WEIGHT", D::SIXTEEN_BIT, C::AMP, false},
    {"A_FIRST_CONV", D::SIXTEEN_BIT, C::AMP, false},
    {"A_DEEP_CONV", D::SIXTEEN_BIT, C::AMP, false},
    {"G_BN_BIAS", D::FP32, C::ALWAYS, false},
    {"G_BN_WEIGHT", D::FP32, C::ALWAYS, false},
    {"G_FC_BIAS", D::FP32, C::ALWAYS, false},
    {"G_FC_WEIGHT", D::FP32, C::ALWAYS, false},
    {"G_FIRST_CONV", D::FP32, C::ALWAYS, false},
    {"G_DEEP_CONV", D::FP32, C::ALWAYS, false},
    {"R_RESULT", D::FP32, C::ALWAYS, false},
    {"G_FC_WEIGHT_FP16", D::SIXTEEN_BIT, C::AMP, false},
    {"G_FIRST_CONV_FP16", D::SIXTEEN_BIT, C::AMP, false},
    {"G_DEEP_CONV_FP16", D::SIXTEEN_BIT, C::AMP, false},
    {"GA_BN_BIAS", D::FP32, C::ACCUMULATION, false},
    {"GA_BN_WEIGHT", D::FP32, C::ACCUMULATION, false},
    {"GA_FC_BIAS", D::FP32, C::ACCUMULATION, false},
    {"GA_FC_WEIGHT", D::FP32, C::ACCUMULATION, false},
    {"GA_FIRST_CONV", D::FP32, C::ACCUMULATION, false},
    {"GA_DEEP_CONV", D::FP32, C::ACCUMULATION, false},
    {"M_BN_BIAS", D::FP32, C::FIRST_MOMENT, false},
    {"M_BN_WEIGHT", D::FP32, C::FIRST_MOMENT, false},
    {"M_FC_BIAS", D::FP32, C::FIRST_MOMENT, false},
    {"M_FC_WEIGHT", D::FP32, C::FIRST_MOMENT, false},
    {"M_FIRST_CONV", D::FP32, C::FIRST_MOMENT, false},
    {"M_DEEP_CONV", D::FP32, C::FIRST_MOMENT, false},
    {"V_BN_BIAS", D::FP32, C::SECOND_MOMENT, false},
    {"V_BN_WEIGHT", D::FP32, C::SECOND_MOMENT, false},
    {"V_FC_BIAS", D::FP32, C::SECOND_MOMENT, false},
    {"V_FC_WEIGHT", D::FP32, C::SECOND_MOMENT, false},
    {"V_FIRST_CONV", D::FP32, C::SECOND_MOMENT, false},
    {"V_DEEP_CONV", D::FP32, C::SECOND_MOMENT, false},
    {"N_FC_WEIGHT", D::FP32, C::LARS, false},
    {"N_FIRST_CONV", D::FP32, C::LARS, false},
    {"N_DEEP_CONV", D::FP32, C::LARS, false},
    {"I_A_LABEL", D::INT32, C::ALWAYS, false},
    {"I_A_DATA", D::IMAGE, C::ALWAYS, false},
    {"I_B_LABEL", D::INT32, C::ALWAYS, false},
    {"I_B_DATA", D::IMAGE, C::ALWAYS, false},
    {"F_FEATURE_FP32", D::FP32, C::NO_AMP, true},
    {"F_GRAD_SLOT_FP32", D::FP32, C::NO_AMP, true},
    {"F_FEATURE_FP16", D::SIXTEEN_BIT, C::AMP, true},
    {"F_GRAD_SLOT_FP16", D::SIXTEEN_BIT, C::AMP, true},
    {"S_SCALAR_FP32", D::FP32, C::ALWAYS, false},
    {"S_SCALAR_FP16", D::SIXTEEN_BIT, C::AMP, false},
    {"S_SCALAR_INT32", D::INT32, C::ALWAYS, false},
    {"S_SCALAR_INT8", D::INT8, C::ALWAYS, false},
    {"S_MASK", D::INT8, C::ALWAYS, true},
    {"T_TEMP_FP32", D::FP32, C::ALWAYS, true},
    {"T_TEMP_FP16", D::SIXTEEN_BIT, C::ALWAYS, true},
    {"T_TEMP_INT32", D::INT32, C::ALWAYS, true},
    {"T_TEMP_INT8", D::INT8, C::ALWAYS, true},
    {"R_PREDICTED_LABEL", D::INT32, C::ALWAYS, false},
    {"R_RESULT_ACCUMULATED", D::FP32, C::ALWAYS, false},
}};

}  // namespace

const RegionTraits& region_traits(Region region) {
  TR_CHECK(region < Region::END, IndexError,
           cat("region number ", index_of(region), " does not exist; 0 to 73 do"));
  return REGIONS[static_cast<size_t>(region)];
}

std::string_view region_name(Region region) { return region_traits(region).name; }

Region parse_region(std::string_view name) {
  for (size_t i = 0; i < REGIONS.size(); ++i)
    if (REGIONS[i].name == name) return region_at(static_cast<int>(i));
  throw Error(ErrorKind::ValueError, cat("region '", name, "' is not known"));
}

std::string_view region_condition_name(RegionCondition condition) {
  switch (condition) {
    case C::ALWAYS:
      return "always";
    case C::BN_FOLDED:
      return "bn_folded";
    case C::HAS_EMA:
      return "has_ema";
    case C::HAS_EMA_AND_AMP:
      return "has_ema and AMP";
    case C::AMP:
      return "AMP (precision fp16 or bf16)";
    case C::NO_AMP:
      return "no AMP (precision fp32)";
    case C::ACCUMULATION:
      return "gradient accumulation";
    case C::FIRST_MOMENT:
      return "optimizer with a first moment";
    case C::SECOND_MOMENT:
      return "optimizer with a second moment";
    case C::LARS:
      return "optimizer lars";
  }
  return "?";
}

}  // namespace tr
