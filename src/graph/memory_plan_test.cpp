#include "renaissance/graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace tr {
namespace {

using test::refuses;

constexpr auto CPU = BackendKind::CPU;
constexpr auto CUDA = BackendKind::CUDA;

PlanConfig amp_everything(OptimizerKind optimizer = OptimizerKind::ADAM) {
  PlanConfig config;
  config.backend = CUDA;
  config.precision = Precision::FP16;
  config.optimizer = optimizer;
  config.has_ema = true;
  config.bn_folded = true;
  return config;
}

/// A small model's worth of tensors: two convolutions, one BatchNorm, one classifier.
MemoryPlan small_plan(const PlanConfig& config) {
  MemoryPlan plan(config);
  plan.alloc_baseline_dtensors({Shape(4, 8, 8, 3)});
  plan.alloc_parameter(ParamRole::FIRST_CONV, Shape(16, 3, 3, 3));
  plan.alloc_parameter(ParamRole::DEEP_CONV, Shape(32, 3, 3, 16));
  plan.alloc_parameter(ParamRole::DEEP_CONV, Shape(5, 1, 1, 32));
  plan.alloc_parameter(ParamRole::BN_WEIGHT, Shape(1, 1, 1, 16));
  plan.alloc_parameter(ParamRole::BN_BIAS, Shape(1, 1, 1, 16));
  plan.alloc_bn_stats(16);
  plan.alloc_parameter(ParamRole::FC_WEIGHT, Shape(10, 1, 1, 320));
  plan.alloc_parameter(ParamRole::FC_WEIGHT, Shape(7, 1, 1, 10));
  plan.alloc_parameter(ParamRole::FC_BIAS, Shape(1, 1, 1, 10));
  plan.alloc_feature(Shape(4, 8, 8, 16));
  plan.alloc_feature_grad(Shape(4, 8, 8, 16));
  plan.alloc_mask(Shape(4, 8, 8, 16));
  plan.alloc_temp_fp32(Shape(1, 1, 1, 32));
  return plan;
}

// ---- Slots, by hand: 16-bit round_up(2e + 16, 256), 8-bit round_up(e + 16, 256), 32-bit twice the 16-bit
// one.

TEST(SlotBytes, HandComputed) {
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 1), DType::FP32, Region::W_BN_BIAS, CPU), 512);    // 2 * ru(18)
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 1), DType::FP16, Region::A_FC_WEIGHT, CPU), 256);  // ru(18)
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 120), DType::FP16, Region::A_FC_WEIGHT, CPU),
            256);  // 240 + 16, exactly
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 121), DType::FP16, Region::A_FC_WEIGHT, CPU), 512);  // 242 + 16
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 121), DType::FP32, Region::W_FC_WEIGHT, CPU), 1024);
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 240), DType::INT8, Region::T_TEMP_INT8, CPU),
            256);  // 240 + 16, exactly
  EXPECT_EQ(slot_bytes(Shape(1, 1, 1, 241), DType::INT8, Region::T_TEMP_INT8, CPU), 512);
  EXPECT_EQ(slot_bytes(Shape(64, 7, 7, 3), DType::FP32, Region::W_FIRST_CONV, CUDA),
            37888);  // 2 * ru(18816 + 16)
  EXPECT_EQ(slot_bytes(Shape(128, 1, 1, 1), DType::INT32, Region::I_A_LABEL, CPU), 1024);  // 2 * ru(272)
}

TEST(SlotBytes, ChannelsArePaddedWhereTheContractSaysSo) {
  // 16-bit input, 3 channels padded to 4 on both backends: 2*10*10*4 elements.
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::FP16, Region::I_A_DATA, CPU), round_up(2 * 800 + 16, 256));
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::BF16, Region::I_B_DATA, CUDA),
            round_up(2 * 800 + 16, 256));
  // FP32 input is not padded.
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::FP32, Region::I_A_DATA, CUDA),
            2 * round_up(2 * 600 + 16, 256));
  // 16-bit features to 8 on CUDA only; INT8 masks likewise.
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::FP16, Region::F_FEATURE_FP16, CUDA),
            round_up(2 * 1600 + 16, 256));
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::FP16, Region::F_FEATURE_FP16, CPU),
            round_up(2 * 600 + 16, 256));
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::INT8, Region::S_MASK, CUDA), round_up(1600 + 16, 256));
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::INT8, Region::S_MASK, CPU), round_up(600 + 16, 256));
  EXPECT_EQ(slot_bytes(Shape(2, 10, 10, 3), DType::FP16, Region::G_DEEP_CONV_FP16, CUDA),
            round_up(2 * 600 + 16, 256));
  EXPECT_EQ(make_dtensor(0, Shape(2, 10, 10, 3), DType::FP16, Region::F_FEATURE_FP16, CUDA).strides,
            (std::array<int64_t, 4>{800, 80, 8, 1}));
}

TEST(SlotBytes, ThirtyTwoBitIsExactlyTwiceSixteen) {
  for (int64_t c = 1; c < 700; ++c)
    EXPECT_EQ(slot_bytes(Shape(1, 1, 1, c), DType::FP32, Region::W_DEEP_CONV, CUDA),
              2 * slot_bytes(Shape(1, 1, 1, c), DType::FP16, Region::A_DEEP_CONV, CUDA));
}

TEST(ShapeTest, RefusesZeroNegativeAndOverflow) {
  refuses(ErrorKind::ShapeError, "dim of 0", [] { Shape(1, 0, 1, 1); });
  refuses(ErrorKind::ShapeError, "dim of -3", [] { Shape(-3, 1, 1, 1); });
  refuses(ErrorKind::ShapeError, "2^63", [] { Shape(int64_t{1} << 32, int64_t{1} << 32, 1, 1); });
  refuses(ErrorKind::ShapeError, "2^60 bytes",
          [] { slot_bytes(Shape(int64_t{1} << 61, 1, 1, 1), DType::FP32, Region::F_FEATURE_FP32, CPU); });
}

TEST(Regions, SixtyEightNamesInOrder) {
  EXPECT_EQ(NUM_REGIONS, 69);
  EXPECT_EQ(Region::DEFAULT, Region::B_PREV_MEAN);
  EXPECT_EQ(index_of(Region::F_FEATURE_FP32), 53);  // number 054
  EXPECT_EQ(index_of(Region::R_RESULT_ACCUMULATED), 67);
  for (int r = 0; r < NUM_REGIONS - 1; ++r) EXPECT_EQ(parse_region(region_name(region_at(r))), region_at(r));
  const auto transient =
      std::count_if(&region_traits(Region::DEFAULT), &region_traits(Region::DEFAULT) + NUM_REGIONS - 1,
                    [](const RegionTraits& traits) { return traits.transient; });
  EXPECT_EQ(transient, 9);
  refuses(ErrorKind::IndexError, "68", [] { region_traits(Region::END); });
}

TEST(Regions, ConditionsComeFromTheConfigurationAlone) {
  PlanConfig plain;
  EXPECT_FALSE(is_condition_enabled(Region::A_DEEP_CONV, plain));
  EXPECT_FALSE(is_condition_enabled(Region::M_DEEP_CONV, plain));
  EXPECT_TRUE(is_condition_enabled(Region::F_FEATURE_FP32, plain));
  EXPECT_FALSE(is_condition_enabled(Region::F_FEATURE_FP16, plain));
  plain.optimizer = OptimizerKind::NESTEROV;
  EXPECT_TRUE(is_condition_enabled(Region::M_DEEP_CONV, plain));
  EXPECT_FALSE(is_condition_enabled(Region::V_DEEP_CONV, plain));
  const PlanConfig all = amp_everything(OptimizerKind::LARS);
  EXPECT_TRUE(is_condition_enabled(Region::N_DEEP_CONV, all));
  EXPECT_TRUE(is_condition_enabled(Region::E_DEEP_CONV_FP16, all));
  EXPECT_FALSE(is_condition_enabled(Region::F_FEATURE_FP32, all));
}

TEST(MemoryPlanTest, RefusesWhatIsOffLateOrTwice) {
  MemoryPlan plan{PlanConfig{}};
  refuses(ErrorKind::ValueError, "region A_FC_WEIGHT is switched off; it exists only with AMP",
          [&] { plan.alloc_amp_fc_weight(Shape(2, 1, 1, 3)); });
  refuses(ErrorKind::ValueError, "E_FC_WEIGHT is switched off; it exists only with has_ema",
          [&] { plan.alloc_ema_fc_weight(Shape(2, 1, 1, 3)); });
  refuses(ErrorKind::ValueError, "W_FC_BIAS is not transient",
          [&] { plan.alloc_transient(Shape(), Region::W_FC_BIAS); });
  refuses(ErrorKind::StateError, "before finalize()", [&] { plan.total_bytes(); });
  refuses(ErrorKind::StateError, "COMPILED", [&] { plan.mark_compiled(); });
  EXPECT_EQ(plan.alloc_feature(Shape(1, 2, 2, 2)), 0);
  refuses(ErrorKind::StateError, "registered first", [&] { plan.alloc_baseline_dtensors({Shape()}); });
  plan.finalize();
  EXPECT_EQ(plan.phase(), MemoryPlan::Phase::MEMORY_LOCKED);
  refuses(ErrorKind::StateError, "finalize() was called twice", [&] { plan.finalize(); });
  refuses(ErrorKind::StateError, "allocation of a tensor in F_FEATURE_FP32 after finalize()",
          [&] { plan.alloc_feature(Shape()); });
  refuses(ErrorKind::StateError, "after finalize()", [&] { plan.reserve_slot(0, 1); });
  refuses(ErrorKind::IndexError, "tensor id 1 does not exist", [&] { plan.tensor(1); });
  refuses(ErrorKind::ValueError, "runs backwards",
          [&] { plan.region_range(Region::G_DEEP_CONV, Region::G_BN_BIAS); });
  plan.mark_compiled();
  EXPECT_EQ(plan.phase(), MemoryPlan::Phase::COMPILED);
}

TEST(MemoryPlanTest, GradientSlotsAreSharedByShapeAndDtype) {
  MemoryPlan plan{PlanConfig{}};
  const TensorId id = plan.alloc_grad_slot(Shape(2, 4, 4, 8), DType::FP32, 3);
  EXPECT_EQ(plan.alloc_grad_slot(Shape(2, 4, 4, 8), DType::FP32, 3), id);
  EXPECT_NE(plan.alloc_grad_slot(Shape(2, 4, 4, 8), DType::FP32, 0), id);
  refuses(ErrorKind::ValueError, "slot 3 holds [2,4,4,8] fp32, asked for [2,4,4,9] fp32",
          [&] { plan.alloc_grad_slot(Shape(2, 4, 4, 9), DType::FP32, 3); });
  refuses(ErrorKind::IndexError, "slot 4", [&] { plan.alloc_grad_slot(Shape(), DType::FP32, 4); });
  refuses(ErrorKind::TypeError, "fp16", [&] { plan.alloc_grad_slot(Shape(), DType::FP16, 1); });
}

TEST(MemoryPlanTest, EverySemanticAllocationLandsInItsRegion) {
  const PlanConfig config = amp_everything(OptimizerKind::ADAM);
  MemoryPlan plan(config);
  std::array<bool, NUM_REGIONS> seen{};
#define TR_CHECK_ALLOCATION(function, name)                              \
  if (is_condition_enabled(Region::name, config)) {                      \
    EXPECT_EQ(plan.tensor(plan.function(Shape())).region, Region::name); \
    seen[static_cast<size_t>(index_of(Region::name))] = true;            \
  }
  TR_SEMANTIC_ALLOCATIONS(TR_CHECK_ALLOCATION)
#undef TR_CHECK_ALLOCATION
  // The others are reached through the baseline, statistics and features.
  for (int r = index_of(Region::W_EQ_BIAS); r <= index_of(Region::G_DEEP_CONV); ++r)
    EXPECT_TRUE(seen[static_cast<size_t>(r)]) << region_name(region_at(r));
}

TEST(MemoryPlanTest, BaselineIdsAreFixedWhateverTheConfiguration) {
  for (const PlanConfig& config : {PlanConfig{}, amp_everything(), amp_everything(OptimizerKind::LARS)}) {
    MemoryPlan plan(config);
    plan.alloc_baseline_dtensors({Shape(4, 8, 8, 3)});
    EXPECT_EQ(plan.num_tensors(), NUM_BASELINE_IDS);
    EXPECT_EQ(plan.tensor(INPUT_B_DATA).region, Region::I_B_DATA);
    EXPECT_EQ(plan.tensor(INPUT_A_LABEL).shape, Shape(4, 1, 1, 1));
    EXPECT_EQ(plan.tensor(LOSS_SUM).region, Region::R_RESULT_ACCUMULATED);
    EXPECT_EQ(plan.tensor(PREDICTED_LABEL).region, Region::R_PREDICTED_LABEL);
    EXPECT_EQ(plan.tensor(LEARNING_RATE).region, Region::S_SCALAR_FP32);
    EXPECT_EQ(plan.tensor(DROPOUT_COUNTER).dtype, DType::INT32);
  }
}

TEST(MemoryPlanTest, RangesCoverWhatTheyName) {
  const PlanConfig config = amp_everything();
  MemoryPlan plan = small_plan(config);
  plan.finalize();
  const auto [offset, bytes] = plan.region_range(Region::G_BN_BIAS, Region::G_DEEP_CONV_FP16);
  EXPECT_EQ(offset, plan.region_info(Region::G_BN_BIAS).base);
  EXPECT_EQ(offset + bytes, plan.region_info(Region::M_BN_BIAS).base);
  EXPECT_EQ(plan.region_range(Region::W_FC_WEIGHT, Region::W_DEEP_CONV).second,
            2 * plan.region_range(Region::A_FC_WEIGHT, Region::A_DEEP_CONV).second);
  EXPECT_TRUE(plan.is_region_populated(Region::W_FIRST_CONV));
  EXPECT_FALSE(plan.is_region_populated(Region::F_FEATURE_FP32));
  EXPECT_FALSE(plan.is_region_populated(Region::S_SCALAR_INT8));
}

// ---- Each validation is made to fail by one change to the image of a good plan.

struct ValidationTest : testing::Test {
  ValidationTest() : plan(small_plan(amp_everything(OptimizerKind::ADAM))) {
    plan.finalize();
    image = plan.image();
  }
  RegionInfo& region(Region r) { return image.regions[static_cast<size_t>(index_of(r))]; }
  DTensor& first_in(Region r) {
    return *std::find_if(image.tensors.begin(), image.tensors.end(),
                         [&](const DTensor& t) { return t.region == r; });
  }
  MemoryPlan plan;
  PlanImage image;
};

TEST_F(ValidationTest, TheUntouchedImagePassesAll) {
  validate_region_order(image);
  validate_contiguity(image);
  validate_layer_correspondence(image);
  validate_alignment(image);
  validate_twin_factor(image);
  validate_disjointness(image);
}

TEST_F(ValidationTest, RegionOrder) {
  std::swap(region(Region::W_FC_BIAS).base, region(Region::W_FC_WEIGHT).base);
  refuses(ErrorKind::ValueError, "region order: W_FC_WEIGHT", [&] { validate_region_order(image); });
}

TEST_F(ValidationTest, RegionOrderSeesATensorOutsideItsRegion) {
  first_in(Region::W_FC_BIAS).offset = 0;
  refuses(ErrorKind::ValueError, "lies outside its region", [&] { validate_region_order(image); });
}

TEST_F(ValidationTest, ContiguityOfEveryRun) {
  for (const auto& [first, last] : contiguous_runs()) {
    // A gap before the run's last populated region: it and all behind it move up by one alignment.
    int broken = index_of(last);
    while (image.regions[static_cast<size_t>(broken)].bytes == 0) --broken;
    ASSERT_GE(broken, index_of(first));
    PlanImage gap = image;
    for (DTensor& tensor : gap.tensors)
      if (index_of(tensor.region) >= broken) tensor.offset += ARENA_ALIGNMENT_BYTES;
    for (int r = broken + 1; r < NUM_REGIONS; ++r)
      gap.regions[static_cast<size_t>(r)].base += ARENA_ALIGNMENT_BYTES;
    // Runs lie inside one another; the first that covers the gap reports it.
    const auto reports = std::find_if(
        contiguous_runs().begin(), contiguous_runs().end(),
        [&](const auto& run) { return index_of(run.first) <= broken && broken <= index_of(run.second); });
    refuses(ErrorKind::ValueError,
            cat("contiguity of ", region_name(reports->first), "…", region_name(reports->second)),
            [&] { validate_contiguity(gap); });
  }
}

TEST_F(ValidationTest, ContiguitySeesAForeignTensorInside) {
  first_in(Region::T_TEMP_FP32).offset = region(Region::G_FC_WEIGHT).base;
  refuses(ErrorKind::ValueError, "lies inside", [&] { validate_contiguity(image); });
}

TEST_F(ValidationTest, LayerCorrespondencePerRegion) {
  // Same sum of elements over two regions, but not region by region.
  for (const Region mirror :
       {Region::G_FC_WEIGHT, Region::M_FC_WEIGHT, Region::V_FC_WEIGHT, Region::E_FC_WEIGHT,
        Region::A_FC_WEIGHT, Region::G_FC_WEIGHT_FP16, Region::E_FC_WEIGHT_FP16}) {
    PlanImage broken = image;
    std::vector<DTensor*> pair;
    for (DTensor& tensor : broken.tensors)
      if (tensor.region == mirror) pair.push_back(&tensor);
    ASSERT_EQ(pair.size(), 2u);
    std::swap(pair[0]->shape, pair[1]->shape);
    refuses(ErrorKind::ValueError, cat("layer correspondence: place 0 of ", region_name(mirror)),
            [&] { validate_layer_correspondence(broken); });
  }
  first_in(Region::G_DEEP_CONV).region = Region::G_FIRST_CONV;
  refuses(ErrorKind::ValueError, "W_FIRST_CONV has 1 tensors, G_FIRST_CONV has 2",
          [&] { validate_layer_correspondence(image); });
}

TEST_F(ValidationTest, LayerCorrespondenceOfNorms) {
  MemoryPlan lars = small_plan(amp_everything(OptimizerKind::LARS));
  lars.finalize();
  PlanImage broken = lars.image();
  for (DTensor& tensor : broken.tensors)
    if (tensor.region == Region::N_FIRST_CONV) tensor.shape = Shape(1, 1, 1, 2);
  refuses(ErrorKind::ValueError, "N_FIRST_CONV", [&] { validate_layer_correspondence(broken); });
}

TEST_F(ValidationTest, Alignment) {
  first_in(Region::W_FC_WEIGHT).offset += 128;
  refuses(ErrorKind::ValueError, "not a multiple of 256", [&] { validate_alignment(image); });
}

TEST_F(ValidationTest, TwinFactor) {
  for (const Region narrow : {Region::A_FIRST_CONV, Region::G_FIRST_CONV_FP16, Region::E_FIRST_CONV_FP16}) {
    PlanImage broken = image;
    for (DTensor& tensor : broken.tensors)
      if (tensor.region == narrow) tensor.offset += ARENA_ALIGNMENT_BYTES;
    refuses(ErrorKind::ValueError, "exactly 2 : 1", [&] { validate_twin_factor(broken); });
    broken = image;
    broken.regions[static_cast<size_t>(index_of(narrow))].bytes += ARENA_ALIGNMENT_BYTES;
    refuses(ErrorKind::ValueError, "exactly 2 : 1", [&] { validate_twin_factor(broken); });
  }
}

TEST_F(ValidationTest, Disjointness) {
  PlanImage overlap = image;
  DTensor& tensor = *std::find_if(overlap.tensors.begin(), overlap.tensors.end(),
                                  [](const DTensor& t) { return t.region == Region::F_GRAD_SLOT_FP16; });
  tensor.offset -= ARENA_ALIGNMENT_BYTES;
  refuses(ErrorKind::ValueError, "overlaps tensor", [&] { validate_disjointness(overlap); });
  PlanImage beyond = image;
  beyond.total_bytes -= ARENA_ALIGNMENT_BYTES;
  refuses(ErrorKind::ValueError, "past the arena's", [&] { validate_disjointness(beyond); });
  first_in(Region::F_FEATURE_FP16).slot_bytes = 256;
  refuses(ErrorKind::ValueError, "in a slot of 256", [&] { validate_disjointness(image); });
}

TEST_F(ValidationTest, VariantAgreement) {
  MemoryPlan other(amp_everything(OptimizerKind::ADAM));
  other.alloc_baseline_dtensors({Shape(4, 8, 8, 3)});
  other.finalize();
  std::vector<MemoryPlan> plans{plan, plan};
  validate_variant_agreement(plans);
  plans[1] = other;
  refuses(ErrorKind::ValueError, "variant agreement: variant 1 has",
          [&] { validate_variant_agreement(plans); });
}

TEST(AgreeOnSlots, TakesTheLargestAndRefusesDifferentModels) {
  const auto plan_for = [](int64_t batch, bool with_mask) {
    MemoryPlan plan{PlanConfig{}};
    plan.alloc_baseline_dtensors({Shape(batch, 8, 8, 3)});
    plan.alloc_feature(Shape(batch, 8, 8, 16));
    if (with_mask) plan.alloc_mask(Shape(batch, 8, 8, 16));
    return plan;
  };
  std::vector<MemoryPlan> plans{plan_for(2, true), plan_for(9, true), plan_for(4, true)};
  agree_on_slots(plans);
  for (MemoryPlan& plan : plans) plan.finalize();
  validate_variant_agreement(plans);
  EXPECT_EQ(plans[0].tensor(NUM_BASELINE_IDS).slot_bytes,
            slot_bytes(Shape(9, 8, 8, 16), DType::FP32, Region::F_FEATURE_FP32, CPU));
  EXPECT_EQ(plans[0].tensor(NUM_BASELINE_IDS).shape, Shape(2, 8, 8, 16));
  std::vector<MemoryPlan> different{plan_for(2, true), plan_for(2, false)};
  refuses(ErrorKind::ValueError, "variants disagree", [&] { agree_on_slots(different); });
}

// ---- Thousands of random plans against a brute-force check.

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  int64_t below(int64_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int64_t>(state_ % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

TEST(RandomPlans, NoOverlapAndRegionsInOrder) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    PlanConfig config;
    config.backend = random.below(2) == 0 ? CPU : CUDA;
    config.precision = static_cast<Precision>(random.below(3));
    config.optimizer = static_cast<OptimizerKind>(random.below(6));
    config.has_ema = random.below(2) == 0;
    config.bn_folded = random.below(2) == 0;
    MemoryPlan plan(config);
    const auto dim = [&] { return 1 + random.below(9); };
    plan.alloc_baseline_dtensors({Shape(dim(), dim(), dim(), dim())});
    for (int64_t n = random.below(30); n > 0; --n) {
      const Shape shape(dim(), dim(), dim(), dim() * dim());
      switch (random.below(6)) {
        case 0:
          plan.alloc_parameter(static_cast<ParamRole>(random.below(NUM_PARAM_ROLES)), shape);
          break;
        case 1:
          plan.alloc_bn_stats(shape.c());
          break;
        case 2:
          plan.alloc_feature(shape);
          break;
        case 3:
          plan.alloc_feature_grad(shape);
          break;
        case 4:
          plan.alloc_mask(shape);
          break;
        default:
          plan.alloc_temp_int32(shape);
          break;
      }
    }
    plan.finalize();
    int64_t sum = 0;
    for (const DTensor& a : plan.tensors()) {
      sum += a.slot_bytes;
      ASSERT_EQ(a.offset % 256, 0) << "seed " << seed;
      for (const DTensor& b : plan.tensors()) {
        if (a.id == b.id) continue;
        ASSERT_TRUE(a.offset + a.slot_bytes <= b.offset || b.offset + b.slot_bytes <= a.offset)
            << "seed " << seed;
        if (a.region < b.region) {
          ASSERT_LT(a.offset, b.offset) << "seed " << seed;
        }
      }
    }
    ASSERT_EQ(sum, plan.total_bytes()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tr
