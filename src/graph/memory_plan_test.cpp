#include "renaissance/graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace tr {
namespace {

using test::refuses;

constexpr auto CPU = BackendKind::CPU;
constexpr auto CUDA = BackendKind::CUDA;

PlanConfig linear() {
  PlanConfig config;
  config.layout = Layout::LINEAR;
  return config;
}

PlanConfig amp_everything(OptimizerKind optimizer = OptimizerKind::ADAM, Layout layout = Layout::LINEAR) {
  PlanConfig config;
  config.layout = layout;
  config.backend = CUDA;
  config.precision = Precision::FP16;
  config.optimizer = optimizer;
  config.has_ema = true;
  config.bn_folded = true;
  config.accumulates = true;
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

bool is_transient(const DTensor& tensor) { return region_traits(tensor.region).transient; }

/// In either layout; packed, every transient tensor is needed at a node of its own.
void finalize(MemoryPlan& plan) {
  if (plan.config().layout == Layout::LINEAR) return plan.finalize();
  std::vector<TransientUse> uses(static_cast<size_t>(plan.num_tensors()));
  int32_t node = 0;
  for (const DTensor& tensor : plan.tensors())
    if (is_transient(tensor)) {
      uses[static_cast<size_t>(tensor.id)].in(Program::TRAIN) = {node, node};
      ++node;
    }
  plan.finalize(place_transients(plan, uses));
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

TEST(Regions, SeventyFourNamesInOrder) {
  EXPECT_EQ(NUM_REGIONS, 75);
  EXPECT_EQ(Region::DEFAULT, Region::B_PREV_MEAN);
  EXPECT_EQ(index_of(Region::GA_BN_BIAS), 34);      // number 035
  EXPECT_EQ(index_of(Region::F_FEATURE_FP32), 59);  // number 060
  EXPECT_EQ(index_of(Region::R_RESULT_ACCUMULATED), 73);
  for (int r = 0; r < NUM_REGIONS - 1; ++r) EXPECT_EQ(parse_region(region_name(region_at(r))), region_at(r));
  const auto transient =
      std::count_if(&region_traits(Region::DEFAULT), &region_traits(Region::DEFAULT) + NUM_REGIONS - 1,
                    [](const RegionTraits& traits) { return traits.transient; });
  EXPECT_EQ(transient, 9);
  refuses(ErrorKind::IndexError, "74", [] { region_traits(Region::END); });
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
  EXPECT_FALSE(is_condition_enabled(Region::GA_DEEP_CONV, plain));
  EXPECT_TRUE(is_condition_enabled(Region::GA_DEEP_CONV, all));
}

TEST(MemoryPlanTest, RefusesWhatIsOffLateOrTwice) {
  MemoryPlan plan{linear()};
  refuses(ErrorKind::ValueError, "region A_FC_WEIGHT is switched off; it exists only with AMP",
          [&] { plan.alloc_amp_fc_weight(Shape(2, 1, 1, 3)); });
  refuses(ErrorKind::ValueError, "E_FC_WEIGHT is switched off; it exists only with has_ema",
          [&] { plan.alloc_ema_fc_weight(Shape(2, 1, 1, 3)); });
  refuses(ErrorKind::ValueError, "GA_FC_WEIGHT is switched off; it exists only with gradient accumulation",
          [&] { plan.alloc_accumulated_fc_weight(Shape(2, 1, 1, 3)); });
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

TEST(MemoryPlanTest, APlacementIsForThePackedLayoutOfThisPlan) {
  MemoryPlan packed{PlanConfig{}}, plain{linear()};
  refuses(ErrorKind::StateError, "layout packed needs a placement of the transient zone",
          [&] { packed.finalize(); });
  refuses(ErrorKind::StateError, "layout linear has no transient zone to place",
          [&] { plain.finalize(TransientPlacement{}); });
  packed.alloc_feature(Shape(1, 2, 2, 2));
  refuses(ErrorKind::StateError, "the placement has 0 tensors, the plan 1",
          [&] { packed.finalize(TransientPlacement{}); });
  refuses(ErrorKind::ValueError, "2 lifetimes for 1 tensors",
          [&] { place_transients(packed, std::vector<TransientUse>(2)); });
  finalize(packed);
  EXPECT_EQ(packed.phase(), MemoryPlan::Phase::MEMORY_LOCKED);
  refuses(ErrorKind::StateError, "finalize() was called twice", [&] { finalize(packed); });
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

class EveryLayout : public testing::TestWithParam<Layout> {};

TEST_P(EveryLayout, RangesCoverWhatTheyName) {
  MemoryPlan plan = small_plan(amp_everything(OptimizerKind::ADAM, GetParam()));
  finalize(plan);
  const auto [offset, bytes] = plan.region_range(Region::G_BN_BIAS, Region::G_DEEP_CONV_FP16);
  EXPECT_EQ(offset, plan.region_info(Region::G_BN_BIAS).base);
  EXPECT_EQ(offset + bytes, plan.region_info(Region::GA_BN_BIAS).base);
  EXPECT_EQ(plan.region_range(Region::GA_BN_BIAS, Region::GA_DEEP_CONV).second,
            plan.region_range(Region::G_BN_BIAS, Region::G_DEEP_CONV).second);
  EXPECT_EQ(plan.region_range(Region::W_FC_WEIGHT, Region::W_DEEP_CONV).second,
            2 * plan.region_range(Region::A_FC_WEIGHT, Region::A_DEEP_CONV).second);
  EXPECT_TRUE(plan.is_region_populated(Region::W_FIRST_CONV));
  EXPECT_FALSE(plan.is_region_populated(Region::F_FEATURE_FP32));
  EXPECT_FALSE(plan.is_region_populated(Region::S_SCALAR_INT8));
}

/// A packed transient region begins where the zone does and has its own tensors' bytes; what follows the zone
/// begins behind it.
TEST(PackedLayout, TheZoneLiesWhereTheFirstTransientRegionWould) {
  MemoryPlan packed = small_plan(amp_everything(OptimizerKind::ADAM, Layout::PACKED)),
             plain = small_plan(amp_everything(OptimizerKind::ADAM, Layout::LINEAR));
  finalize(packed);
  finalize(plain);
  const PlanImage& image = packed.image();
  EXPECT_EQ(image.zone_base, plain.region_info(Region::F_FEATURE_FP32).base);
  // All alone at their nodes: the zone is as large as the largest.
  const int64_t largest = slot_bytes(Shape(4, 8, 8, 16), DType::FP16, Region::F_FEATURE_FP16, CUDA);
  EXPECT_EQ(image.zone_bytes, largest);
  EXPECT_EQ(image.zone_lower_bound, largest);
  EXPECT_EQ(packed.region_info(Region::S_SCALAR_FP32).base, image.zone_base + largest);
  int64_t transient = 0;
  for (int r = 0; r < NUM_REGIONS - 1; ++r) {
    const Region region = region_at(r);
    EXPECT_EQ(packed.region_info(region).bytes, plain.region_info(region).bytes) << region_name(region);
    if (!region_traits(region).transient) continue;
    EXPECT_EQ(packed.region_info(region).base, image.zone_base) << region_name(region);
    transient += plain.region_info(region).bytes;
  }
  EXPECT_EQ(packed.total_bytes(), plain.total_bytes() - transient + largest);
}

// ---- Each validation is made to fail by one change to the image of a good plan.

/// A good plan, and its image to break.
struct GoodPlan {
  explicit GoodPlan(Layout layout) : plan(small_plan(amp_everything(OptimizerKind::ADAM, layout))) {
    finalize(plan);
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

struct ValidationTest : testing::TestWithParam<Layout>, GoodPlan {
  ValidationTest() : GoodPlan(GetParam()) {}
};

TEST_P(ValidationTest, TheUntouchedImagePassesAll) {
  validate_region_order(image);
  validate_contiguity(image);
  validate_layer_correspondence(image);
  validate_alignment(image);
  validate_twin_factor(image);
  validate_disjointness(image);
}

TEST_P(ValidationTest, RegionOrder) {
  std::swap(region(Region::W_FC_BIAS).base, region(Region::W_FC_WEIGHT).base);
  refuses(ErrorKind::ValueError, "region order: W_FC_WEIGHT", [&] { validate_region_order(image); });
}

TEST_P(ValidationTest, RegionOrderSeesATensorOutsideItsRegion) {
  first_in(Region::W_FC_BIAS).offset = 0;
  refuses(ErrorKind::ValueError, "lies outside its region", [&] { validate_region_order(image); });
}

TEST_P(ValidationTest, ContiguityOfEveryRun) {
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

TEST_P(ValidationTest, ContiguitySeesAForeignTensorInside) {
  first_in(Region::T_TEMP_FP32).offset = region(Region::G_FC_WEIGHT).base;
  refuses(ErrorKind::ValueError, "lies inside", [&] { validate_contiguity(image); });
}

TEST_P(ValidationTest, LayerCorrespondencePerRegion) {
  // Same sum of elements over two regions, but not region by region.
  for (const Region mirror :
       {Region::G_FC_WEIGHT, Region::GA_FC_WEIGHT, Region::M_FC_WEIGHT, Region::V_FC_WEIGHT,
        Region::E_FC_WEIGHT, Region::A_FC_WEIGHT, Region::G_FC_WEIGHT_FP16, Region::E_FC_WEIGHT_FP16}) {
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

TEST_P(ValidationTest, LayerCorrespondenceOfNorms) {
  MemoryPlan lars = small_plan(amp_everything(OptimizerKind::LARS, GetParam()));
  finalize(lars);
  PlanImage broken = lars.image();
  for (DTensor& tensor : broken.tensors)
    if (tensor.region == Region::N_FIRST_CONV) tensor.shape = Shape(1, 1, 1, 2);
  refuses(ErrorKind::ValueError, "N_FIRST_CONV", [&] { validate_layer_correspondence(broken); });
}

TEST_P(ValidationTest, LayerCorrespondenceOfFoldedBatchNorm) {
  for (const Region folded : {Region::W_EQ_BIAS, Region::W_EQ_SCALE}) {
    PlanImage broken = image;
    for (DTensor& tensor : broken.tensors)
      if (tensor.region == folded) tensor.shape = Shape(1, 1, 1, 15);
    refuses(ErrorKind::ValueError,
            cat("place 0 of ", region_name(folded), " has 15 elements, B_PREV_MEAN asks for 16"),
            [&] { validate_layer_correspondence(broken); });
  }
}

TEST_P(ValidationTest, Alignment) {
  first_in(Region::W_FC_WEIGHT).offset += 128;
  refuses(ErrorKind::ValueError, "not a multiple of 256", [&] { validate_alignment(image); });
}

TEST_P(ValidationTest, TwinFactor) {
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

TEST_P(ValidationTest, Disjointness) {
  // The first tensor behind the transient ones of the features, onto what lies before it.
  PlanImage overlap = image;
  DTensor& scalar = *std::find_if(overlap.tensors.begin(), overlap.tensors.end(),
                                  [](const DTensor& t) { return t.region == Region::S_SCALAR_FP32; });
  scalar.offset -= ARENA_ALIGNMENT_BYTES;
  refuses(ErrorKind::ValueError,
          GetParam() == Layout::PACKED
              ? cat("the transient zone at ", image.zone_base, " ends at ",
                    image.zone_base + image.zone_bytes, " and overlaps tensor ", scalar.id)
              : cat("and overlaps tensor ", scalar.id),
          [&] { validate_disjointness(overlap); });
  PlanImage beyond = image;
  beyond.total_bytes -= ARENA_ALIGNMENT_BYTES;
  refuses(ErrorKind::ValueError, "past the arena's", [&] { validate_disjointness(beyond); });
  first_in(Region::F_FEATURE_FP16).slot_bytes = 256;
  refuses(ErrorKind::ValueError, "in a slot of 256", [&] { validate_disjointness(image); });
}

TEST_P(ValidationTest, VariantAgreement) {
  const PlanConfig config = amp_everything(OptimizerKind::ADAM, GetParam());
  MemoryPlan smaller(config), moved = small_plan(config);
  smaller.alloc_baseline_dtensors({Shape(4, 8, 8, 3)});
  finalize(smaller);
  std::vector<MemoryPlan> plans{plan, plan};
  validate_variant_agreement(plans);
  plans[1] = smaller;
  refuses(ErrorKind::ValueError, "variant agreement: variant 1 has",
          [&] { validate_variant_agreement(plans); });
  if (GetParam() == Layout::LINEAR) return;
  // As many bytes, but two tensors of the zone apart that were in one place.
  std::vector<TransientUse> uses = plan.image().uses;
  std::vector<int64_t> offsets;
  for (const DTensor& tensor : plan.tensors())
    offsets.push_back(is_transient(tensor) ? tensor.offset - plan.image().zone_base : -1);
  const TensorId mask = first_in(Region::S_MASK).id;
  offsets[static_cast<size_t>(mask)] += ARENA_ALIGNMENT_BYTES;
  moved.finalize({uses, offsets, plan.image().zone_bytes, plan.image().zone_lower_bound});
  plans[1] = moved;
  refuses(ErrorKind::ValueError, cat("variant agreement: tensor ", mask, " [4,8,8,16] in S_MASK at "),
          [&] { validate_variant_agreement(plans); });
}

INSTANTIATE_TEST_SUITE_P(Layouts, ValidationTest, testing::Values(Layout::PACKED, Layout::LINEAR),
                         [](const auto& tested) { return std::string(layout_name(tested.param)); });
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, testing::Values(Layout::PACKED, Layout::LINEAR),
                         [](const auto& tested) { return std::string(layout_name(tested.param)); });

// ---- What only the packed layout can get wrong.

struct ZoneValidation : testing::Test, GoodPlan {
  ZoneValidation() : GoodPlan(Layout::PACKED) {}
};

TEST_F(ZoneValidation, EveryTransientRegionBeginsWithTheZone) {
  for (int r = 0; r < NUM_REGIONS - 1; ++r) {
    if (!region_traits(region_at(r)).transient) continue;
    PlanImage broken = image;
    broken.regions[static_cast<size_t>(r)].base += ARENA_ALIGNMENT_BYTES;
    refuses(ErrorKind::ValueError,
            cat("region order: ", region_name(region_at(r)), " is at ",
                image.zone_base + ARENA_ALIGNMENT_BYTES, ", the transient zone at ", image.zone_base),
            [&] { validate_region_order(broken); });
  }
}

TEST_F(ZoneValidation, TheZoneKeepsItsPlaceAmongTheRegions) {
  PlanImage low = image;
  low.zone_base = 0;
  for (int r = 0; r < NUM_REGIONS - 1; ++r)
    if (region_traits(region_at(r)).transient) low.regions[static_cast<size_t>(r)].base = 0;
  refuses(ErrorKind::ValueError, "region order: F_FEATURE_FP32 is at 0, below I_B_DATA",
          [&] { validate_region_order(low); });
  region(Region::S_SCALAR_FP32).base = image.zone_base - ARENA_ALIGNMENT_BYTES;
  refuses(ErrorKind::ValueError, "region order: S_SCALAR_FP32 is at ", [&] { validate_region_order(image); });
}

TEST_F(ZoneValidation, ATensorOutsideTheZone) {
  for (const Region where : {Region::F_FEATURE_FP16, Region::S_MASK, Region::T_TEMP_INT32}) {
    for (const int64_t offset : {image.zone_base - ARENA_ALIGNMENT_BYTES,
                                 image.zone_base + image.zone_bytes - first_in(where).slot_bytes + 256}) {
      PlanImage broken = image;
      broken.tensors[static_cast<size_t>(first_in(where).id)].offset = offset;
      refuses(ErrorKind::ValueError, "lies outside its region", [&] { validate_region_order(broken); });
    }
  }
}

TEST_F(ZoneValidation, APersistentTensorInsideTheZone) {
  for (const Region where : {Region::W_FC_BIAS, Region::I_B_DATA, Region::S_SCALAR_INT32, Region::R_RESULT}) {
    PlanImage broken = image;
    broken.tensors[static_cast<size_t>(first_in(where).id)].offset = image.zone_base + 256;
    refuses(ErrorKind::ValueError, cat("disjointness: the transient zone at ", image.zone_base),
            [&] { validate_disjointness(broken); });
  }
}

TEST_F(ZoneValidation, ALifetimeIsMissing) {
  image.uses.pop_back();
  refuses(ErrorKind::ValueError, "disjointness: ", [&] { validate_disjointness(image); });
}

/// Two tensors of one shape on the same bytes, or where `shift` says.
struct Pair {
  TransientUse a, b;
  int64_t shift = 0;
  int64_t more_bytes = 0;  ///< of b's slot
};

TransientUse used(Lifetime train, Lifetime eval = {}, bool always = false) { return {{train, eval}, always}; }

void place(const Pair& pair) {
  MemoryPlan plan{PlanConfig{}};
  const TensorId a = plan.alloc_feature(Shape(1, 4, 4, 8)), b = plan.alloc_feature(Shape(1, 4, 4, 8));
  const int64_t bytes = plan.tensor(a).slot_bytes + pair.more_bytes;
  plan.reserve_slot(b, bytes);
  plan.finalize({{pair.a, pair.b}, {0, pair.shift}, bytes + pair.shift, 0});
  EXPECT_EQ(plan.tensor(a).offset, 0);
}

TEST(SharedBytes, AreForTensorsThatAreNeverNeededTogether) {
  constexpr const char* TOGETHER = "while both are needed";
  place({used({0, 2}), used({3, 4})});
  place({used({3, 4}, {0, 1}), used({0, 2}, {2, 5})});
  place({used({0, 2}), used({}, {0, 2})});
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({0, 2}), used({2, 4})}); });
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({0, 9}), used({4, 4})}); });
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({0, 2}, {0, 4}), used({3, 4}, {4, 6})}); });
  refuses(ErrorKind::ValueError, TOGETHER, [] {
    place({.a = used({0, 2}), .b = used({1, 1}), .shift = ARENA_ALIGNMENT_BYTES});
  });
  // What is always needed shares with nothing that is ever needed.
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({}, {}, true), used({0, 0})}); });
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({0, 0}, {}, true), used({}, {3, 3})}); });
  refuses(ErrorKind::ValueError, TOGETHER, [] { place({used({}, {}, true), used({}, {}, true)}); });
  place({used({}, {}, true), used({})});
}

TEST(SharedBytes, MayBeTakenOverAtOneNode) {
  constexpr const char* TOGETHER = "while both are needed";
  const auto after = [](Lifetime train, Lifetime eval = {}, TensorId from = 0) {
    TransientUse use = used(train, eval);
    use.in_place_of = from;
    return use;
  };
  place({used({0, 2}), after({2, 4})});
  const auto refused = [&](const Pair& pair) {
    refuses(ErrorKind::ValueError, TOGETHER, [&] { place(pair); });
  };
  refused({used({0, 3}), after({2, 4})});  // another node still needs it
  refused({used({2, 4}), after({0, 2})});  // before it is there
  refused({used({0, 2}, {0, 2}), after({2, 4}, {1, 3})});
  refused({used({0, 2}, {}, true), after({2, 4})});
  refused({used({0, 2}), after({2, 4}, {}, 1)});  // of itself
  refused({.a = used({0, 2}), .b = after({2, 4}), .shift = ARENA_ALIGNMENT_BYTES});
  refused({.a = used({0, 2}), .b = after({2, 4}), .more_bytes = ARENA_ALIGNMENT_BYTES});
}

TEST_P(EveryLayout, SlotsAreTheLargestAndDifferentModelsRefused) {
  const auto plan_for = [&](int64_t batch, bool with_mask) {
    PlanConfig config;
    config.layout = GetParam();
    MemoryPlan plan{config};
    plan.alloc_baseline_dtensors({Shape(batch, 8, 8, 3)});
    plan.alloc_feature(Shape(batch, 8, 8, 16));
    if (with_mask) plan.alloc_mask(Shape(batch, 8, 8, 16));
    return plan;
  };
  std::vector<MemoryPlan> plans{plan_for(2, true), plan_for(9, true), plan_for(4, true)};
  agree_on_slots(plans);
  for (MemoryPlan& plan : plans) finalize(plan);
  validate_variant_agreement(plans);
  EXPECT_EQ(plans[0].tensor(NUM_BASELINE_IDS).slot_bytes,
            slot_bytes(Shape(9, 8, 8, 16), DType::FP32, Region::F_FEATURE_FP32, CPU));
  EXPECT_EQ(plans[0].tensor(NUM_BASELINE_IDS).shape, Shape(2, 8, 8, 16));
  std::vector<MemoryPlan> different{plan_for(2, true), plan_for(2, false)};
  refuses(ErrorKind::ValueError, "variants disagree", [&] { agree_on_slots(different); });
}

// ---- Random plans against brute force.

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

MemoryPlan random_plan(Random& random, Layout layout) {
  PlanConfig config;
  config.layout = layout;
  config.backend = random.below(2) == 0 ? CPU : CUDA;
  config.precision = static_cast<Precision>(random.below(3));
  config.optimizer = static_cast<OptimizerKind>(random.below(6));
  config.has_ema = random.below(2) == 0;
  config.bn_folded = random.below(2) == 0;
  config.accumulates = random.below(2) == 0;
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
        for (int64_t alike = random.below(4); alike >= 0; --alike) plan.alloc_feature_grad(shape);
        break;
      case 4:
        plan.alloc_mask(shape);
        break;
      default:
        plan.alloc_temp_int32(shape);
        break;
    }
  }
  return plan;
}

TEST(RandomPlans, LinearOnesHaveNoOverlapAndRegionsInOrder) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    MemoryPlan plan = random_plan(random, Layout::LINEAR);
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

constexpr int32_t MOST_NODES = 12;

/// Lifetimes in both programs, some tensors always or never needed; gradients of one size may follow one
/// another on the same bytes, in training alone.
std::vector<TransientUse> random_uses(Random& random, const MemoryPlan& plan) {
  std::vector<TransientUse> uses(static_cast<size_t>(plan.num_tensors()));
  const auto life = [&](int32_t from) {
    const auto first = static_cast<int32_t>(from + random.below(MOST_NODES - from));
    return Lifetime{first, static_cast<int32_t>(first + random.below(MOST_NODES - first))};
  };
  TensorId before = NO_TENSOR;  // may be taken over
  for (const DTensor& tensor : plan.tensors()) {
    if (!is_transient(tensor)) continue;
    TransientUse& use = uses[static_cast<size_t>(tensor.id)];
    if (random.below(8) > 0) use.in(Program::TRAIN) = life(0);
    const bool gradient = index_of(tensor.region) == index_of(Region::F_GRAD_SLOT_FP32) ||
                          index_of(tensor.region) == index_of(Region::F_GRAD_SLOT_FP16);
    if (!gradient) {
      if (random.below(2) == 0) use.in(Program::EVAL) = life(0);
      use.always = random.below(16) == 0;
      continue;
    }
    if (before != NO_TENSOR && random.below(2) == 0 && plan.tensor(before).slot_bytes == tensor.slot_bytes) {
      const int32_t from = uses[static_cast<size_t>(before)].in(Program::TRAIN).last;
      use.in_place_of = before;
      use.in(Program::TRAIN) = {from, life(from).last};
    }
    before = use.in(Program::TRAIN).is_used() && use.in(Program::TRAIN).last + 1 < MOST_NODES &&
                     use.in(Program::TRAIN).last > use.in(Program::TRAIN).first
                 ? tensor.id
                 : NO_TENSOR;
  }
  return uses;
}

/// Tensors needed while node `node` of a program runs.
std::vector<const DTensor*> needed(const MemoryPlan& plan, const std::vector<TransientUse>& uses,
                                   Program program, int32_t node) {
  std::vector<const DTensor*> list;
  for (const DTensor& tensor : plan.tensors()) {
    if (!is_transient(tensor)) continue;
    const TransientUse& use = uses[static_cast<size_t>(tensor.id)];
    const Lifetime& life = use.in(program);
    if (use.always || (life.first <= node && node <= life.last)) list.push_back(&tensor);
  }
  return list;
}

TEST(RandomPlans, PackedOnesNeverShareBytesThatAreNeededTogether) {
  int shared = 0, taken_over = 0;
  constexpr int PLANS = 150;
  for (uint64_t seed = 1; seed <= PLANS; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Random random(seed);
    MemoryPlan plan = random_plan(random, Layout::PACKED);
    const std::vector<TransientUse> uses = random_uses(random, plan);
    const TransientPlacement placement = place_transients(plan, uses);
    EXPECT_EQ(place_transients(plan, uses).offsets, placement.offsets);
    plan.finalize(placement);
    int64_t least = 0;
    for (const Program program : {Program::TRAIN, Program::EVAL})
      for (int32_t node = 0; node < MOST_NODES; ++node) {
        int64_t sum = 0;
        for (const DTensor* a : needed(plan, uses, program, node)) {
          const TransientUse& use = uses[static_cast<size_t>(a->id)];
          const bool takes_over = use.in_place_of != NO_TENSOR && use.in(program).first == node;
          taken_over += takes_over;
          if (!takes_over) sum += a->slot_bytes;
          for (const DTensor* b : needed(plan, uses, program, node)) {
            if (b->id <= a->id) continue;
            const bool apart =
                a->offset + a->slot_bytes <= b->offset || b->offset + b->slot_bytes <= a->offset;
            const TransientUse& later = uses[static_cast<size_t>(b->id)];
            const bool same_bytes = later.in_place_of == a->id && later.in(program).first == node;
            ASSERT_TRUE(same_bytes ? a->offset == b->offset : apart) << a->id << " and " << b->id;
          }
        }
        least = std::max(least, sum);
      }
    int64_t persistent = 0, transient = 0;
    const PlanImage& image = plan.image();
    for (const DTensor& tensor : plan.tensors()) {
      (is_transient(tensor) ? transient : persistent) += tensor.slot_bytes;
      const bool inside = tensor.offset >= image.zone_base &&
                          tensor.offset + tensor.slot_bytes <= image.zone_base + image.zone_bytes;
      ASSERT_EQ(inside, is_transient(tensor)) << tensor.id;
      ASSERT_EQ(tensor.offset % 256, 0);
    }
    ASSERT_EQ(image.zone_lower_bound, least);
    ASSERT_GE(image.zone_bytes, least);
    ASSERT_LE(image.zone_bytes, transient);
    ASSERT_EQ(plan.total_bytes(), persistent + image.zone_bytes);
    shared += image.zone_bytes < transient;
  }
  // Or the plans would not be of the kind that this is about.
  EXPECT_GT(shared, PLANS / 2);
  EXPECT_GT(taken_over, PLANS / 2);
}

}  // namespace
}  // namespace tr
