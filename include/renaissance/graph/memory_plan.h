/// The only authority on layout: registers tensors, then gives each its offset, once.
///
///   MemoryPlan plan(config);
///   plan.alloc_baseline_dtensors({input, labels});
///   ParameterTensors w = plan.alloc_parameter(ParamRole::DEEP_CONV, Shape(64, 3, 3, 32));
///   plan.finalize();                       // walks the regions in order, validates, locks
///   plan.tensor(w.master).offset;          // bytes from the arena's base, on every rank
///
/// Errors: StateError for allocation after finalize() and for a second finalize(); ValueError for a
/// tensor in a region that the configuration switches off (the text names region and condition);
/// ShapeError, TypeError, IndexError for what does not fit. A plan is a value: copy it freely.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/error.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/lifetime.h"
#include "renaissance/tensor/distributed_tensor.h"

namespace tr {

enum class OptimizerKind : uint8_t { SGD, MOMENTUM, NESTEROV, ADAM, ADAMW, LARS, LARS_NESTEROV };
inline bool is_lars(OptimizerKind kind) { return kind >= OptimizerKind::LARS; }
std::string_view optimizer_name(OptimizerKind kind);
OptimizerKind parse_optimizer(std::string_view text);

/// `PACKED`: the transient regions share one span, where tensors that are never needed at the same time share
/// bytes. `LINEAR`: every region has its own span and every tensor its own slot, the reference.
enum class Layout : uint8_t { PACKED, LINEAR };
std::string_view layout_name(Layout layout);

/// Everything that decides which regions exist and how large a slot is.
struct PlanConfig {
  BackendKind backend = BackendKind::CPU;
  Precision precision = Precision::FP32;
  OptimizerKind optimizer = OptimizerKind::SGD;
  bool has_ema = false;
  bool bn_folded = false;
  bool accumulates = false;  ///< gradients of several micro-batches make one update
  Layout layout = Layout::PACKED;
};

bool is_condition_enabled(RegionCondition condition, const PlanConfig& config);
inline bool is_condition_enabled(Region region, const PlanConfig& config) {
  return is_condition_enabled(region_traits(region).condition, config);
}
/// The element type a region holds under `config`.
DType region_dtype(Region region, const PlanConfig& config);

/// The six parameter roles, in region order: `W_x`, `G_x`, `M_x`, … are `W_BN_BIAS + role`, ….
enum class ParamRole : uint8_t { BN_BIAS, BN_WEIGHT, FC_BIAS, FC_WEIGHT, FIRST_CONV, DEEP_CONV };
inline constexpr int NUM_PARAM_ROLES = 6;
/// FC_WEIGHT, FIRST_CONV and DEEP_CONV have 16-bit twins and decay; the other three do neither.
inline bool is_weight_role(ParamRole role) { return role >= ParamRole::FC_WEIGHT; }

/// One parameter and all its twins; NO_TENSOR where the configuration has none.
struct ParameterTensors {
  TensorId master = NO_TENSOR;         ///< W_*
  TensorId ema = NO_TENSOR;            ///< E_*
  TensorId ema_16bit = NO_TENSOR;      ///< E_*_FP16
  TensorId compute_copy = NO_TENSOR;   ///< A_*
  TensorId grad = NO_TENSOR;           ///< G_*
  TensorId grad_16bit = NO_TENSOR;     ///< G_*_FP16
  TensorId accumulated = NO_TENSOR;    ///< GA_*
  TensorId first_moment = NO_TENSOR;   ///< M_*
  TensorId second_moment = NO_TENSOR;  ///< V_*
  TensorId norm = NO_TENSOR;           ///< N_*
};

/// BatchNorm running statistics: in force (prev) and produced by this step (next), and, where the
/// configuration folds, what they make of x at inference: x * scale + bias. C values each.
struct BnStats {
  TensorId prev_mean = NO_TENSOR, prev_var = NO_TENSOR, next_mean = NO_TENSOR, next_var = NO_TENSOR;
  TensorId eq_bias = NO_TENSOR, eq_scale = NO_TENSOR;  ///< W_EQ_*
};

/// Fixed ids of what every training needs; the runtime finds them by index. Same for every optimizer.
enum BaselineId : TensorId {
  INPUT_A_LABEL,
  INPUT_A_MIX,  ///< INT32: the BatchMix of the batch in the buffer
  INPUT_A_DATA,
  INPUT_B_LABEL,
  INPUT_B_MIX,
  INPUT_B_DATA,
  LABEL,  ///< the loss's copy of the labels
  LOSS,
  TOP1,
  TOP5,  ///< this step's means (top-k as fractions)
  LOSS_SUM,
  TOP1_SUM,
  TOP5_SUM,  ///< sums over samples since last cleared
  PREDICTED_LABEL,
  LEARNING_RATE,
  LOSS_SCALE,
  LABEL_SMOOTHING,
  BATCH_SIZE,
  BATCH_SIZE_LAST_TRAIN,
  BATCH_SIZE_LAST_VAL,  ///< samples that count, per rank
  MOMENTUM,
  WEIGHT_DECAY,
  BETA1,
  BETA2,
  EPSILON,
  BIAS_CORRECTION1,
  BIAS_CORRECTION2,
  TRUST_COEFFICIENT,
  GRADIENT_FACTOR,  ///< what this step's gradients are multiplied with, where norms are clipped or on CUDA
  NAN_FLAG,         ///< INT32: 1 if any gradient is not finite
  STEP,             ///< INT32: optimizer steps taken
  CLEAN_STEPS,
  SKIPPED_STEPS,        ///< INT32: since the scale last changed; in all
  ACCUMULATED_SAMPLES,  ///< INT32: of one rank, whose gradients GA_* hold
  DROPOUT_SEED,
  DROPOUT_COUNTER,  ///< INT32
  SYNC_COUNTERS,    ///< INT32: NUM_SYNC_COUNTERS, zero between nodes
  NUM_BASELINE_IDS
};

/// Counters with which the blocks of one CUDA kernel agree on which of them ends last.
inline constexpr int64_t NUM_SYNC_COUNTERS = 1024;

struct BaselineShapes {
  Shape input;  ///< [N, H, W, C] of one rank's batch; labels and predictions are [N, 1, 1, 1]
};

struct RegionInfo {
  int64_t base = 0;   ///< bytes from the arena's base; of a packed transient region, the zone's
  int64_t bytes = 0;  ///< sum of its tensors' slots, which of a packed transient region overlap
  int32_t tensors = 0;
  bool enabled = false;
};

/// The part of a plan that layout decides, as plain data: what the validators read.
struct PlanImage {
  PlanConfig config;
  std::array<RegionInfo, NUM_REGIONS> regions{};  ///< regions[END].base is the total
  std::vector<DTensor> tensors;                   ///< by id
  int64_t total_bytes = 0;
  // PACKED only.
  int64_t zone_base = 0, zone_bytes = 0;  ///< the span that the transient regions share
  int64_t zone_lower_bound = 0;           ///< no layout of the zone needs less
  std::vector<TransientUse> uses;         ///< by tensor id
};

class MemoryPlan {
 public:
  enum class Phase : uint8_t { PLANNING, MEMORY_LOCKED, COMPILED };

  explicit MemoryPlan(const PlanConfig& config);

  // One function per role; the region is inside it. `shape` is the tensor's own.
// clang-format off
#define TR_SEMANTIC_ALLOCATIONS(X)                                                                           \
  X(alloc_eq_bias, W_EQ_BIAS) X(alloc_eq_scale, W_EQ_SCALE) X(alloc_bn_bias, W_BN_BIAS)                      \
  X(alloc_bn_weight, W_BN_WEIGHT) X(alloc_fc_bias, W_FC_BIAS) X(alloc_fc_weight, W_FC_WEIGHT)                \
  X(alloc_first_conv_weight, W_FIRST_CONV) X(alloc_deep_conv_weight, W_DEEP_CONV)                            \
  X(alloc_ema_bn_bias, E_BN_BIAS) X(alloc_ema_bn_weight, E_BN_WEIGHT) X(alloc_ema_fc_bias, E_FC_BIAS)        \
  X(alloc_ema_fc_weight, E_FC_WEIGHT) X(alloc_ema_first_conv, E_FIRST_CONV)                                  \
  X(alloc_ema_deep_conv, E_DEEP_CONV) X(alloc_ema_fc_weight_fp16, E_FC_WEIGHT_FP16)                          \
  X(alloc_ema_first_conv_fp16, E_FIRST_CONV_FP16) X(alloc_ema_deep_conv_fp16, E_DEEP_CONV_FP16)              \
  X(alloc_amp_fc_weight, A_FC_WEIGHT) X(alloc_amp_first_conv, A_FIRST_CONV)                                  \
  X(alloc_amp_deep_conv, A_DEEP_CONV) X(alloc_grad_bn_bias, G_BN_BIAS)                                       \
  X(alloc_grad_bn_weight, G_BN_WEIGHT) X(alloc_grad_fc_bias, G_FC_BIAS)                                      \
  X(alloc_grad_fc_weight, G_FC_WEIGHT) X(alloc_grad_first_conv, G_FIRST_CONV)                                \
  X(alloc_grad_deep_conv, G_DEEP_CONV) X(alloc_grad_fc_weight_fp16, G_FC_WEIGHT_FP16)                        \
  X(alloc_grad_first_conv_fp16, G_FIRST_CONV_FP16) X(alloc_grad_deep_conv_fp16, G_DEEP_CONV_FP16)            \
  X(alloc_accumulated_bn_bias, GA_BN_BIAS) X(alloc_accumulated_bn_weight, GA_BN_WEIGHT)                      \
  X(alloc_accumulated_fc_bias, GA_FC_BIAS) X(alloc_accumulated_fc_weight, GA_FC_WEIGHT)                      \
  X(alloc_accumulated_first_conv, GA_FIRST_CONV) X(alloc_accumulated_deep_conv, GA_DEEP_CONV)                \
  X(alloc_momentum_bn_bias, M_BN_BIAS) X(alloc_momentum_bn_weight, M_BN_WEIGHT)                              \
  X(alloc_momentum_fc_bias, M_FC_BIAS) X(alloc_momentum_fc_weight, M_FC_WEIGHT)                              \
  X(alloc_momentum_first_conv, M_FIRST_CONV) X(alloc_momentum_deep_conv, M_DEEP_CONV)                        \
  X(alloc_second_moment_bn_bias, V_BN_BIAS) X(alloc_second_moment_bn_weight, V_BN_WEIGHT)                    \
  X(alloc_second_moment_fc_bias, V_FC_BIAS) X(alloc_second_moment_fc_weight, V_FC_WEIGHT)                    \
  X(alloc_second_moment_first_conv, V_FIRST_CONV) X(alloc_second_moment_deep_conv, V_DEEP_CONV)              \
  X(alloc_norm_fc_weight, N_FC_WEIGHT) X(alloc_norm_first_conv, N_FIRST_CONV)                                \
  X(alloc_norm_deep_conv, N_DEEP_CONV) X(alloc_mask, S_MASK) X(alloc_temp_fp32, T_TEMP_FP32)                 \
  X(alloc_temp_fp16, T_TEMP_FP16) X(alloc_temp_int32, T_TEMP_INT32) X(alloc_temp_int8, T_TEMP_INT8)          \
  X(alloc_scalar_fp32, S_SCALAR_FP32) X(alloc_scalar_fp16, S_SCALAR_FP16)                                    \
  X(alloc_scalar_int32, S_SCALAR_INT32) X(alloc_scalar_int8, S_SCALAR_INT8)
// clang-format on
#define TR_DECLARE_ALLOCATION(function, region) \
  TensorId function(const Shape& shape) { return allocate(shape, Region::region); }
  TR_SEMANTIC_ALLOCATIONS(TR_DECLARE_ALLOCATION)
#undef TR_DECLARE_ALLOCATION

  /// Registers the baseline tensors with the ids of BaselineId; must come first.
  void alloc_baseline_dtensors(const BaselineShapes& shapes);
  BnStats alloc_bn_stats(int64_t channels);
  /// The master and every twin that the configuration has, in one call.
  ParameterTensors alloc_parameter(ParamRole role, const Shape& shape);
  /// A feature map: F_FEATURE_FP32, or F_FEATURE_FP16 under AMP.
  TensorId alloc_feature(const Shape& shape);
  /// The gradient of a feature map: F_GRAD_SLOT_FP32 or F_GRAD_SLOT_FP16.
  TensorId alloc_feature_grad(const Shape& shape);
  /// Up to four explicit gradient slots (0–3): the same slot with the same shape and dtype returns the
  /// same tensor, with another is a ValueError.
  TensorId alloc_grad_slot(const Shape& shape, DType dtype, int slot);
  /// What the roles above resolve to; `region` must be transient here (saved tensors of operators).
  TensorId alloc_transient(const Shape& shape, Region region);

  /// Raises the slot of tensor `id` to at least `bytes`: the largest over the variants.
  void reserve_slot(TensorId id, int64_t bytes);

  /// Offsets, regions, validation, lock. Once. The placement of the transient zone is for PACKED, which does
  /// not go without (StateError), and for PACKED alone.
  void finalize();
  void finalize(const TransientPlacement& placement);
  /// MEMORY_LOCKED → COMPILED, when the graphs over this plan exist.
  void mark_compiled();

  Phase phase() const { return phase_; }
  const PlanConfig& config() const { return image_.config; }
  int num_tensors() const { return static_cast<int>(image_.tensors.size()); }
  const DTensor& tensor(TensorId id) const;
  std::span<const DTensor> tensors() const { return image_.tensors; }
  /// Base, bytes, tensors of one region; StateError before finalize().
  const RegionInfo& region_info(Region region) const;
  bool is_region_populated(Region region) const { return region_info(region).bytes > 0; }
  /// (offset, bytes) of the run first…last, both included; StateError before finalize().
  std::pair<int64_t, int64_t> region_range(Region first, Region last) const;
  int64_t total_bytes() const;
  const PlanImage& image() const { return image_; }

 private:
  TensorId allocate(const Shape& shape, Region region);
  void lay_out(const TransientPlacement* placement);
  void require_phase(Phase phase, std::string_view what) const;

  PlanImage image_;
  Phase phase_ = Phase::PLANNING;
  std::array<TensorId, 4> grad_slots_{NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR};
};

/// Makes the slot of every tensor the largest over the plans (all in PLANNING, with equal ids, regions
/// and dtypes; ValueError otherwise).
void agree_on_slots(std::span<MemoryPlan> plans);

/// Packs the transient tensors of plans that agree on their slots; pure and deterministic. `uses`: by id.
TransientPlacement place_transients(const MemoryPlan& plan, std::vector<TransientUse> uses);

/// The first…last pairs whose bytes must be adjacent with nothing foreign inside.
std::span<const std::pair<Region, Region>> contiguous_runs();

// The validations, each throwing ValueError with what it found. finalize() runs all but the last.
void validate_region_order(const PlanImage& image);
void validate_contiguity(const PlanImage& image);
void validate_layer_correspondence(const PlanImage& image);
void validate_alignment(const PlanImage& image);
void validate_twin_factor(const PlanImage& image);
void validate_disjointness(const PlanImage& image);
void validate_variant_agreement(std::span<const MemoryPlan> plans);

}  // namespace tr
