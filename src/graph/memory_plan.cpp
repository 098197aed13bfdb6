#include "renaissance/graph/memory_plan.h"

#include <algorithm>
#include <limits>

#include "renaissance/core/batch_mix.h"

namespace tr {

namespace {

constexpr std::array<std::string_view, 7> OPTIMIZER_NAMES{"sgd",   "momentum", "nesterov",     "adam",
                                                          "adamw", "lars",     "lars_nesterov"};

Region role_region(Region first, ParamRole role) {
  return region_at(index_of(first) + static_cast<int>(role));
}

Region weight_role_region(Region first, ParamRole role) {
  return region_at(index_of(first) + static_cast<int>(role) - static_cast<int>(ParamRole::FC_WEIGHT));
}

/// The regions of the first role of every family that mirrors the parameters.
constexpr Region W0 = Region::W_BN_BIAS, E0 = Region::E_BN_BIAS, G0 = Region::G_BN_BIAS;
constexpr Region GA0 = Region::GA_BN_BIAS, M0 = Region::M_BN_BIAS, V0 = Region::V_BN_BIAS;

bool mirrors_parameters(Region region) {
  return (region >= W0 && region <= Region::G_DEEP_CONV) ||
         (region >= Region::G_FC_WEIGHT_FP16 && region <= Region::N_DEEP_CONV);
}

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) { return OPTIMIZER_NAMES.at(static_cast<size_t>(kind)); }

OptimizerKind parse_optimizer(std::string_view text) {
  for (size_t i = 0; i < OPTIMIZER_NAMES.size(); ++i)
    if (OPTIMIZER_NAMES[i] == text) return static_cast<OptimizerKind>(i);
  throw Error(ErrorKind::ValueError,
              cat("optimizer '", text,
                  "' is not known; use sgd, momentum, nesterov, adam, adamw, lars or lars_nesterov"));
}

std::string_view layout_name(Layout layout) { return layout == Layout::PACKED ? "packed" : "linear"; }

bool is_condition_enabled(RegionCondition condition, const PlanConfig& config) {
  const bool amp = is_amp(config.precision);
  const bool adam = config.optimizer == OptimizerKind::ADAM || config.optimizer == OptimizerKind::ADAMW;
  switch (condition) {
    case RegionCondition::ALWAYS:
      return true;
    case RegionCondition::BN_FOLDED:
      return config.bn_folded;
    case RegionCondition::HAS_EMA:
      return config.has_ema;
    case RegionCondition::HAS_EMA_AND_AMP:
      return config.has_ema && amp;
    case RegionCondition::AMP:
      return amp;
    case RegionCondition::NO_AMP:
      return !amp;
    case RegionCondition::ACCUMULATION:
      return config.accumulates;
    case RegionCondition::FIRST_MOMENT:
      return config.optimizer != OptimizerKind::SGD;
    case RegionCondition::SECOND_MOMENT:
      return adam;
    case RegionCondition::LARS:
      return is_lars(config.optimizer);
  }
  return false;
}

DType region_dtype(Region region, const PlanConfig& config) {
  const DType sixteen_bit = is_amp(config.precision) ? compute_dtype(config.precision) : DType::FP16;
  switch (region_traits(region).dtype) {
    case RegionDType::FP32:
      return DType::FP32;
    case RegionDType::SIXTEEN_BIT:
      return sixteen_bit;
    case RegionDType::INT32:
      return DType::INT32;
    case RegionDType::INT8:
      return DType::INT8;
    case RegionDType::IMAGE:
      return compute_dtype(config.precision);
  }
  return DType::FP32;
}

MemoryPlan::MemoryPlan(const PlanConfig& config) {
  image_.config = config;
  for (int r = 0; r < NUM_REGIONS - 1; ++r)
    image_.regions[static_cast<size_t>(r)].enabled = is_condition_enabled(region_at(r), config);
}

void MemoryPlan::require_phase(Phase phase, std::string_view what) const {
  TR_CHECK(phase_ == phase, StateError,
           cat("memory plan: ", what,
               phase == Phase::PLANNING
                   ? " after finalize(); the layout is locked, register every tensor before it"
                   : " before finalize(); offsets do not exist yet"));
}

TensorId MemoryPlan::allocate(const Shape& shape, Region region) {
  require_phase(Phase::PLANNING, cat("allocation of a tensor in ", region_name(region)));
  const RegionTraits& traits = region_traits(region);
  TR_CHECK(is_condition_enabled(region, image_.config), ValueError,
           cat("memory plan: region ", traits.name, " is switched off; it exists only with ",
               region_condition_name(traits.condition)));
  const auto id = static_cast<TensorId>(image_.tensors.size());
  image_.tensors.push_back(
      make_dtensor(id, shape, region_dtype(region, image_.config), region, image_.config.backend));
  return id;
}

void MemoryPlan::alloc_baseline_dtensors(const BaselineShapes& shapes) {
  TR_CHECK(image_.tensors.empty(), StateError,
           cat("memory plan: baseline tensors have fixed ids and must be registered first, but ",
               image_.tensors.size(), " tensors exist already"));
  const Shape per_sample(shapes.input.n(), 1, 1, 1);
  const Shape scalar, mix(1, 1, 1, BATCH_MIX_WORDS);
  const auto expect = [](TensorId id, BaselineId want) {
    TR_CHECK(id == want, StateError, cat("memory plan: baseline tensor ", want, " was given id ", id));
  };
  expect(allocate(per_sample, Region::I_A_LABEL), INPUT_A_LABEL);
  expect(allocate(mix, Region::I_A_LABEL), INPUT_A_MIX);
  expect(allocate(shapes.input, Region::I_A_DATA), INPUT_A_DATA);
  expect(allocate(per_sample, Region::I_B_LABEL), INPUT_B_LABEL);
  expect(allocate(mix, Region::I_B_LABEL), INPUT_B_MIX);
  expect(allocate(shapes.input, Region::I_B_DATA), INPUT_B_DATA);
  expect(allocate(per_sample, Region::T_TEMP_INT32), LABEL);
  for (const BaselineId id : {LOSS, TOP1, TOP5}) expect(allocate(scalar, Region::R_RESULT), id);
  for (const BaselineId id : {LOSS_SUM, TOP1_SUM, TOP5_SUM})
    expect(allocate(scalar, Region::R_RESULT_ACCUMULATED), id);
  expect(allocate(per_sample, Region::R_PREDICTED_LABEL), PREDICTED_LABEL);
  for (int id = LEARNING_RATE; id <= GRADIENT_FACTOR; ++id)
    expect(allocate(scalar, Region::S_SCALAR_FP32), static_cast<BaselineId>(id));
  for (int id = NAN_FLAG; id < SYNC_COUNTERS; ++id)
    expect(allocate(scalar, Region::S_SCALAR_INT32), static_cast<BaselineId>(id));
  expect(allocate(Shape(1, 1, 1, NUM_SYNC_COUNTERS), Region::S_SCALAR_INT32), SYNC_COUNTERS);
}

BnStats MemoryPlan::alloc_bn_stats(int64_t channels) {
  const Shape shape(1, 1, 1, channels);
  BnStats stats;
  stats.prev_mean = allocate(shape, Region::B_PREV_MEAN);
  stats.prev_var = allocate(shape, Region::B_PREV_VAR);
  stats.next_mean = allocate(shape, Region::B_NEXT_MEAN);
  stats.next_var = allocate(shape, Region::B_NEXT_VAR);
  if (image_.config.bn_folded) {
    stats.eq_bias = allocate(shape, Region::W_EQ_BIAS);
    stats.eq_scale = allocate(shape, Region::W_EQ_SCALE);
  }
  return stats;
}

ParameterTensors MemoryPlan::alloc_parameter(ParamRole role, const Shape& shape) {
  const auto twin = [&](Region region, const Shape& twin_shape) {
    return is_condition_enabled(region, image_.config) ? allocate(twin_shape, region) : NO_TENSOR;
  };
  ParameterTensors tensors;
  tensors.master = allocate(shape, role_region(W0, role));
  tensors.ema = twin(role_region(E0, role), shape);
  tensors.grad = allocate(shape, role_region(G0, role));
  tensors.accumulated = twin(role_region(GA0, role), shape);
  tensors.first_moment = twin(role_region(M0, role), shape);
  tensors.second_moment = twin(role_region(V0, role), shape);
  if (is_weight_role(role)) {
    tensors.ema_16bit = twin(weight_role_region(Region::E_FC_WEIGHT_FP16, role), shape);
    tensors.compute_copy = twin(weight_role_region(Region::A_FC_WEIGHT, role), shape);
    tensors.grad_16bit = twin(weight_role_region(Region::G_FC_WEIGHT_FP16, role), shape);
    tensors.norm = twin(weight_role_region(Region::N_FC_WEIGHT, role), Shape());
  }
  return tensors;
}

TensorId MemoryPlan::alloc_feature(const Shape& shape) {
  return allocate(shape, is_amp(image_.config.precision) ? Region::F_FEATURE_FP16 : Region::F_FEATURE_FP32);
}

TensorId MemoryPlan::alloc_feature_grad(const Shape& shape) {
  return allocate(shape,
                  is_amp(image_.config.precision) ? Region::F_GRAD_SLOT_FP16 : Region::F_GRAD_SLOT_FP32);
}

TensorId MemoryPlan::alloc_grad_slot(const Shape& shape, DType dtype, int slot) {
  TR_CHECK(slot >= 0 && slot < static_cast<int>(grad_slots_.size()), IndexError,
           cat("gradient slot ", slot, " does not exist; slots 0 to 3 do"));
  TensorId& id = grad_slots_[static_cast<size_t>(slot)];
  if (id != NO_TENSOR) {
    const DTensor& known = tensor(id);
    TR_CHECK(known.shape == shape && known.dtype == dtype, ValueError,
             cat("gradient slot ", slot, " holds ", known.shape, ' ', dtype_name(known.dtype), ", asked for ",
                 shape, ' ', dtype_name(dtype), "; use another slot"));
    return id;
  }
  const DType offered = compute_dtype(image_.config.precision);
  TR_CHECK(dtype == offered, TypeError,
           cat("gradient slot ", slot, ": dtype ", dtype_name(dtype), " asked for, precision ",
               precision_name(image_.config.precision), " keeps feature gradients in ", dtype_name(offered)));
  return id = alloc_feature_grad(shape);
}

TensorId MemoryPlan::alloc_transient(const Shape& shape, Region region) {
  TR_CHECK(
      region_traits(region).transient, ValueError,
      cat("memory plan: region ", region_name(region), " is not transient; use its own allocation function"));
  return allocate(shape, region);
}

void MemoryPlan::reserve_slot(TensorId id, int64_t bytes) {
  require_phase(Phase::PLANNING, "reserving a slot");
  tensor(id);  // checks the id
  int64_t& slot = image_.tensors[static_cast<size_t>(id)].slot_bytes;
  slot = std::max(slot, bytes);
}

void MemoryPlan::finalize() { lay_out(nullptr); }
void MemoryPlan::finalize(const TransientPlacement& placement) { lay_out(&placement); }

void MemoryPlan::lay_out(const TransientPlacement* placement) {
  TR_CHECK(phase_ == Phase::PLANNING, StateError,
           "memory plan: finalize() was called twice; a layout is made once");
  const bool packed = image_.config.layout == Layout::PACKED;
  TR_CHECK(packed == (placement != nullptr), StateError,
           cat("memory plan: layout ", layout_name(image_.config.layout), ' ',
               packed ? "needs a placement of the transient zone" : "has no transient zone to place"));
  std::array<std::vector<TensorId>, NUM_REGIONS - 1> members;
  for (const DTensor& tensor : image_.tensors)
    members[static_cast<size_t>(index_of(tensor.region))].push_back(tensor.id);
  int64_t cursor = 0;
  const auto advance = [&](int64_t bytes, auto&&... what) {
    TR_CHECK(bytes <= std::numeric_limits<int64_t>::max() - cursor, ShapeError,
             cat("memory plan: the arena passes 2^63 bytes at ", what...));
    cursor += bytes;
  };
  if (packed) {
    TR_CHECK(
        placement->offsets.size() == image_.tensors.size() && placement->uses.size() == image_.tensors.size(),
        StateError,
        cat("memory plan: the placement has ", placement->offsets.size(), " tensors, the plan ",
            image_.tensors.size()));
    image_.uses = placement->uses;
    image_.zone_bytes = placement->bytes;
    image_.zone_lower_bound = placement->lower_bound;
  }
  bool zone_is_placed = false;
  for (size_t r = 0; r < members.size(); ++r) {
    RegionInfo& info = image_.regions[r];
    info.tensors = static_cast<int32_t>(members[r].size());
    if (packed && region_traits(region_at(static_cast<int>(r))).transient) {
      if (!zone_is_placed) {
        image_.zone_base = cursor;
        advance(image_.zone_bytes, "the transient zone");
        zone_is_placed = true;
      }
      info.base = image_.zone_base;
      for (const TensorId id : members[r]) {
        DTensor& tensor = image_.tensors[static_cast<size_t>(id)];
        tensor.offset = image_.zone_base + placement->offsets[static_cast<size_t>(id)];
        info.bytes += tensor.slot_bytes;
      }
      continue;
    }
    info.base = cursor;
    for (const TensorId id : members[r]) {
      DTensor& tensor = image_.tensors[static_cast<size_t>(id)];
      tensor.offset = cursor;
      advance(tensor.slot_bytes, "tensor ", id, " ", tensor.shape);
    }
    info.bytes = cursor - info.base;
  }
  image_.regions[NUM_REGIONS - 1].base = cursor;
  image_.total_bytes = cursor;

  validate_region_order(image_);
  validate_contiguity(image_);
  validate_layer_correspondence(image_);
  validate_alignment(image_);
  validate_twin_factor(image_);
  validate_disjointness(image_);
  phase_ = Phase::MEMORY_LOCKED;
}

void MemoryPlan::mark_compiled() {
  TR_CHECK(phase_ == Phase::MEMORY_LOCKED, StateError,
           "memory plan: only a finalized plan that is not compiled yet can become COMPILED");
  phase_ = Phase::COMPILED;
}

const DTensor& MemoryPlan::tensor(TensorId id) const {
  TR_CHECK(id >= 0 && id < num_tensors(), IndexError,
           cat("memory plan: tensor id ", id, " does not exist; ids 0 to ", num_tensors() - 1, " do"));
  return image_.tensors[static_cast<size_t>(id)];
}

const RegionInfo& MemoryPlan::region_info(Region region) const {
  if (phase_ == Phase::PLANNING) require_phase(Phase::MEMORY_LOCKED, "asking for a region");
  TR_CHECK(region < Region::END, IndexError, cat("region number ", index_of(region), " does not exist"));
  return image_.regions[static_cast<size_t>(index_of(region))];
}

std::pair<int64_t, int64_t> MemoryPlan::region_range(Region first, Region last) const {
  TR_CHECK(first <= last, ValueError,
           cat("region range ", region_name(first), "…", region_name(last), " runs backwards"));
  const RegionInfo& from = region_info(first);
  const RegionInfo& to = region_info(last);
  return {from.base, to.base + to.bytes - from.base};
}

int64_t MemoryPlan::total_bytes() const {
  if (phase_ == Phase::PLANNING) require_phase(Phase::MEMORY_LOCKED, "asking for the total");
  return image_.total_bytes;
}

void agree_on_slots(std::span<MemoryPlan> plans) {
  if (plans.empty()) return;
  const MemoryPlan& first = plans.front();
  for (const MemoryPlan& plan : plans) {
    TR_CHECK(plan.num_tensors() == first.num_tensors(), ValueError,
             cat("variants disagree: ", plan.num_tensors(), " tensors against ", first.num_tensors()));
    for (TensorId id = 0; id < plan.num_tensors(); ++id) {
      const DTensor &a = first.tensor(id), &b = plan.tensor(id);
      TR_CHECK(a.region == b.region && a.dtype == b.dtype, ValueError,
               cat("variants disagree on tensor ", id, ": ", region_name(a.region), ' ', dtype_name(a.dtype),
                   " against ", region_name(b.region), ' ', dtype_name(b.dtype)));
    }
  }
  for (TensorId id = 0; id < first.num_tensors(); ++id) {
    int64_t largest = 0;
    for (const MemoryPlan& plan : plans) largest = std::max(largest, plan.tensor(id).slot_bytes);
    for (MemoryPlan& plan : plans) plan.reserve_slot(id, largest);
  }
  // Parameters do not depend on the input's shape; where they did, twins would no longer be exact.
  for (const DTensor& tensor : first.tensors()) {
    if (!mirrors_parameters(tensor.region)) continue;
    for (const MemoryPlan& plan : plans)
      TR_CHECK(plan.tensor(tensor.id).shape == tensor.shape, ShapeError,
               cat("parameter tensor ", tensor.id, " in ", region_name(tensor.region), " is ", tensor.shape,
                   " in one variant and ", plan.tensor(tensor.id).shape, " in another"));
  }
}

}  // namespace tr
