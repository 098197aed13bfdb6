// RANGE operations over a whole arena, slot padding included.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "comm/all_reduce.h"
#include "range_ops/range_ops_cpu.h"
#include "range_ops/update_segments.h"

namespace tr {
namespace {

/// A planned model and one rank's arena.
class Arena {
 public:
  Arena(Precision precision, OptimizerKind optimizer) {
    CompileRequest request;
    request.model = seq(conv(5, 3, 1, 1), bn(), relu(), gap(), flatten(), fc(3));
    const Shape input(2, 4, 4, 3);
    request.inputs = {input, input, input, input, input, input};
    request.classes = 3;
    request.config.precision = precision;
    request.config.optimizer = optimizer;
    request.plan_only = true;
    model = compile(request, std::make_shared<const Catalog>(make_catalog()));
    bytes.assign(static_cast<size_t>(plan().total_bytes()), std::byte{0});
  }
  const MemoryPlan& plan() const { return model.plan(Variant::TRAIN_BASE); }
  std::span<float> range(Region first, Region last) {
    const auto [offset, size] = plan().region_range(first, last);
    return {reinterpret_cast<float*>(bytes.data() + offset), static_cast<size_t>(size) / sizeof(float)};
  }
  std::span<uint16_t> range16(Region first, Region last) {
    const auto [offset, size] = plan().region_range(first, last);
    return {reinterpret_cast<uint16_t*>(bytes.data() + offset), static_cast<size_t>(size) / 2};
  }
  template <typename T>
  T& scalar(BaselineId id) {
    return *reinterpret_cast<T*>(bytes.data() + plan().tensor(id).offset);
  }
  void run(RangeOp op, std::vector<RegionRange> in, std::vector<RegionRange> out) {
    GraphNode node;
    node.kind = NodeKind::RANGE;
    node.range_op = op;
    node.in = std::move(in);
    node.out = std::move(out);
    const RangeBinding binding{node, model, plan(), bytes.data()};
    if (const Call call = bind_range_cpu(binding)) call();
  }

  CompiledModel model;
  std::vector<std::byte> bytes;
};

constexpr RegionRange WEIGHTS{Region::W_FC_WEIGHT, Region::W_DEEP_CONV},
    COPIES{Region::A_FC_WEIGHT, Region::A_DEEP_CONV};

TEST(RangeCast, RoundsToNearestEvenInBothTypes) {
  const float inf = std::numeric_limits<float>::infinity();
  struct Case {
    float value;
    uint16_t fp16, bf16;
  };
  const std::vector<Case> cases{{0.0f, 0x0000, 0x0000},
                                {-0.0f, 0x8000, 0x8000},
                                {1.0f, 0x3c00, 0x3f80},
                                {-2.5f, 0xc100, 0xc020},
                                {65504.0f, 0x7bff, 0x4780},
                                {65519.0f, 0x7bff, 0x4780},
                                {65520.0f, 0x7c00, 0x4780},
                                {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
                                {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
                                {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
                                {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
                                {0x1p-24f, 0x0001, 0x3380},
                                {0x1p-25f, 0x0000, 0x3300},
                                {0x3p-25f, 0x0002, 0x33c0},
                                {0x1p-14f, 0x0400, 0x3880},
                                {inf, 0x7c00, 0x7f80},
                                {-inf, 0xfc00, 0xff80}};
  for (const Precision precision : {Precision::FP16, Precision::BF16}) {
    Arena arena(precision, OptimizerKind::SGD);
    const std::span<float> wide = arena.range(WEIGHTS.first, WEIGHTS.last);
    const std::span<uint16_t> narrow = arena.range16(COPIES.first, COPIES.last);
    ASSERT_EQ(wide.size(), narrow.size());
    for (size_t i = 0; i < cases.size(); ++i) wide[i] = cases[i].value;
    arena.run(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHTS}, {COPIES});
    for (size_t i = 0; i < cases.size(); ++i)
      EXPECT_EQ(narrow[i], precision == Precision::FP16 ? cases[i].fp16 : cases[i].bf16) << cases[i].value;
    for (size_t i = cases.size(); i < narrow.size(); ++i) EXPECT_EQ(narrow[i], 0);
  }
}

TEST(RangeCast, EverySixteenBitValueComesBack) {
  for (const Precision precision : {Precision::FP16, Precision::BF16}) {
    Arena arena(precision, OptimizerKind::SGD);
    const std::span<float> wide = arena.range(WEIGHTS.first, WEIGHTS.last);
    const std::span<uint16_t> narrow = arena.range16(COPIES.first, COPIES.last);
    for (uint32_t start = 0; start < 65536; start += static_cast<uint32_t>(narrow.size())) {
      for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(start + i);
      arena.run(RangeOp::RANGE_CAST_FP16_TO_FP32, {COPIES}, {WEIGHTS});
      const std::vector<uint16_t> before(narrow.begin(), narrow.end());
      arena.run(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHTS}, {COPIES});
      for (size_t i = 0; i < narrow.size(); ++i)
        if (!std::isnan(wide[i])) {
          ASSERT_EQ(narrow[i], before[i]);
        } else {
          ASSERT_EQ(narrow[i] & 0x7c00, before[i] & 0x7c00);
        }
    }
  }
}

TEST(RangeUpdate, PaddingStaysZeroUnderEveryRule) {
  const std::vector<std::pair<OptimizerKind, RangeOp>> rules{
      {OptimizerKind::SGD, RangeOp::RANGE_UPDATE_WEIGHT_SGD},
      {OptimizerKind::MOMENTUM, RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM},
      {OptimizerKind::NESTEROV, RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV},
      {OptimizerKind::ADAM, RangeOp::RANGE_UPDATE_WEIGHT_ADAM},
      {OptimizerKind::ADAMW, RangeOp::RANGE_UPDATE_WEIGHT_ADAMW},
      {OptimizerKind::LARS, RangeOp::RANGE_UPDATE_WEIGHT_LARS},
      {OptimizerKind::LARS_NESTEROV, RangeOp::RANGE_UPDATE_WEIGHT_LARS_NESTEROV}};
  for (const auto& [kind, op] : rules) {
    Arena arena(Precision::FP32, kind);
    arena.scalar<float>(LEARNING_RATE) = 0.1f;
    arena.scalar<float>(MOMENTUM) = arena.scalar<float>(BETA1) = 0.9f;
    arena.scalar<float>(BETA2) = 0.99f;
    arena.scalar<float>(WEIGHT_DECAY) = 0.1f;
    arena.scalar<float>(EPSILON) = 1e-8f;
    arena.scalar<float>(BIAS_CORRECTION1) = arena.scalar<float>(BIAS_CORRECTION2) = 0.1f;
    std::vector<bool> is_element(arena.bytes.size() / sizeof(float), false);
    for (const Parameter& parameter : arena.model.parameters) {
      if (!is_weight_role(parameter.spec.role)) continue;
      for (const TensorId id : {parameter.tensors.master, parameter.tensors.grad}) {
        const DTensor& tensor = arena.plan().tensor(id);
        for (int64_t i = 0; i < tensor.shape.numel(); ++i) {
          reinterpret_cast<float*>(arena.bytes.data() + tensor.offset)[i] = 0.5f;
          is_element[static_cast<size_t>(tensor.offset / 4 + i)] = true;
        }
      }
    }
    std::vector<RegionRange> out{WEIGHTS};
    if (kind != OptimizerKind::SGD) out.push_back({Region::M_FC_WEIGHT, Region::M_DEEP_CONV});
    if (kind == OptimizerKind::ADAM || kind == OptimizerKind::ADAMW)
      out.push_back({Region::V_FC_WEIGHT, Region::V_DEEP_CONV});
    for (int step = 0; step < 3; ++step) arena.run(op, {{Region::G_FC_WEIGHT, Region::G_DEEP_CONV}}, out);
    const auto [offset, size] = arena.plan().region_range(WEIGHTS.first, WEIGHTS.last);
    int64_t changed = 0;
    for (int64_t at = offset / 4; at < (offset + size) / 4; ++at) {
      const float value = reinterpret_cast<float*>(arena.bytes.data())[at];
      if (is_element[static_cast<size_t>(at)])
        changed += value != 0.5f ? 1 : 0;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u) << optimizer_name(kind);
    }
    EXPECT_EQ(changed, 5 * 3 * 3 * 3 + 3 * 5) << optimizer_name(kind);
  }
}

/// Elements that are left out lie between segments; what adjoins is one, but for trust ratios.
TEST(UpdateSegments, CoverWhatIsNotExcluded) {
  Arena arena(Precision::FP32, OptimizerKind::LARS);
  const std::vector<Parameter>& parameters = arena.model.parameters;  // conv, conv's bias, bn, fc, fc's bias
  const auto slot = [&](size_t p) {
    return arena.plan().tensor(parameters.at(p).tensors.master).slot_bytes / 4;
  };
  ASSERT_EQ(parameters.size(), 6u);
  GraphNode node;
  node.kind = NodeKind::RANGE;
  node.range_op = RangeOp::RANGE_UPDATE_WEIGHT_LARS;
  node.in = {{Region::G_BN_BIAS, Region::G_DEEP_CONV}};
  node.out = {{Region::W_BN_BIAS, Region::W_DEEP_CONV}};
  const auto segments = [&] { return update_segments(node, arena.model, arena.plan()); };
  int64_t all = 0;
  for (size_t p = 0; p < parameters.size(); ++p) all += slot(p);
  ASSERT_EQ(segments().size(), 1u);
  EXPECT_EQ(segments()[0].elements, all);
  node.excluded = {parameters[2].tensors.master};  // bn.weight is second, after bn.bias
  ASSERT_EQ(segments().size(), 2u);
  EXPECT_EQ(segments()[0].first, 0);
  EXPECT_EQ(segments()[0].elements, slot(3));
  EXPECT_EQ(segments()[1].first, slot(3) + slot(2));
  EXPECT_EQ(segments()[1].elements, all - slot(2) - slot(3));
  EXPECT_EQ(segments()[1].trust, NO_TENSOR);
  node.in = {{Region::G_FC_WEIGHT, Region::G_DEEP_CONV}, {Region::N_FC_WEIGHT, Region::N_DEEP_CONV}};
  node.out = {WEIGHTS};
  ASSERT_EQ(segments().size(), 2u);  // fc, then the convolution
  EXPECT_EQ(segments()[0].trust, parameters[4].tensors.norm);
  EXPECT_EQ(segments()[1].trust, parameters[0].tensors.norm);
  EXPECT_EQ(segments()[1].first, slot(4));
}

TEST(RangeMemory, ClearAndCopyKeepToTheirRange) {
  Arena arena(Precision::FP32, OptimizerKind::SGD);
  std::fill(arena.bytes.begin(), arena.bytes.end(), std::byte{7});
  arena.run(RangeOp::RANGE_CLEAR, {}, {{Region::G_BN_BIAS, Region::G_DEEP_CONV}});
  const auto [offset, size] = arena.plan().region_range(Region::G_BN_BIAS, Region::G_DEEP_CONV);
  for (int64_t i = 0; i < std::ssize(arena.bytes); ++i)
    ASSERT_EQ(arena.bytes[static_cast<size_t>(i)],
              i >= offset && i < offset + size ? std::byte{0} : std::byte{7})
        << i;
  for (float& value : arena.range(Region::B_NEXT_MEAN, Region::B_NEXT_VAR)) value = 3.0f;
  arena.run(RangeOp::RANGE_D2D_COPY, {{Region::B_NEXT_MEAN, Region::B_NEXT_VAR}},
            {{Region::B_PREV_MEAN, Region::B_PREV_VAR}});
  for (const float value : arena.range(Region::B_PREV_MEAN, Region::B_PREV_VAR)) EXPECT_EQ(value, 3.0f);
}

TEST(RangeWatch, LossScaleHalvesToOneAndDoublesAfterTwoThousandCleanSteps) {
  Arena arena(Precision::FP16, OptimizerKind::SGD);
  const RegionRange gradients{Region::G_BN_BIAS, Region::G_DEEP_CONV};
  arena.scalar<float>(LOSS_SCALE) = 4.0f;
  arena.range(Region::G_FC_WEIGHT, Region::G_FC_WEIGHT)[1] = std::numeric_limits<float>::infinity();
  for (const float expected : {2.0f, 1.0f, 1.0f}) {
    arena.run(RangeOp::RANGE_CHECK_NAN, {gradients}, {});
    arena.run(RangeOp::RANGE_GRAD_SCALING, {}, {gradients});
    EXPECT_EQ(arena.scalar<int32_t>(NAN_FLAG), 1);
    EXPECT_EQ(arena.scalar<float>(LOSS_SCALE), expected);
  }
  arena.scalar<float>(LOSS_SCALE) = 8.0f;
  arena.range(Region::G_FC_WEIGHT, Region::G_FC_WEIGHT)[1] = 16.0f;
  for (int step = 1; step <= 2000; ++step) {
    arena.run(RangeOp::RANGE_CHECK_NAN, {gradients}, {});
    arena.run(RangeOp::RANGE_GRAD_SCALING, {}, {gradients});
    if (step == 1) {
      EXPECT_EQ(arena.range(Region::G_FC_WEIGHT, Region::G_FC_WEIGHT)[1], 2.0f) << "unscaled";
    }
    if (step == 1999) {
      EXPECT_EQ(arena.scalar<float>(LOSS_SCALE), 8.0f);
    }
  }
  EXPECT_EQ(arena.scalar<float>(LOSS_SCALE), 16.0f);
}

TEST(RangeWatch, LossScaleGrowsAsOftenAsAskedForOrNever) {
  const RegionRange gradients{Region::G_BN_BIAS, Region::G_DEEP_CONV};
  for (const int64_t growth_steps : {0, 3}) {
    Arena arena(Precision::FP16, OptimizerKind::SGD);
    arena.model.request.loss_scale_growth_steps = growth_steps;
    arena.scalar<float>(LOSS_SCALE) = 8.0f;
    std::vector<float> scales;
    for (const bool overflow : {false, false, false, true, false, false, false}) {
      arena.range(Region::G_FC_WEIGHT, Region::G_FC_WEIGHT)[1] =
          overflow ? std::numeric_limits<float>::infinity() : 16.0f;
      arena.run(RangeOp::RANGE_CHECK_NAN, {gradients}, {});
      arena.run(RangeOp::RANGE_GRAD_SCALING, {}, {gradients});
      scales.push_back(arena.scalar<float>(LOSS_SCALE));
    }
    const std::vector<float> want = growth_steps == 0
                                        ? std::vector<float>(7, 8.0f)
                                        : std::vector<float>{8.0f, 8.0f, 16.0f, 8.0f, 8.0f, 8.0f, 16.0f};
    EXPECT_EQ(scales, want) << growth_steps;
  }
}

/// Two ranks move their statistics by `momentum` towards their own halves of a batch; the result is what one
/// rank with the whole batch has.
TEST(AllReduce, RunningStatisticsFollowTheWholeBatch) {
  const float momentum = 0.1f, previous_mean = 0.3f, previous_var = 2.0f;
  const std::vector<float> halves[2] = {{1.0f, 3.0f, 5.0f, 7.0f}, {-8.0f, -6.0f, 2.0f, 4.0f}};
  const auto mean_of = [](const std::vector<float>& values) {
    float sum = 0.0f;
    for (const float value : values) sum += value;
    return sum / static_cast<float>(values.size());
  };
  const auto biased_var = [&](const std::vector<float>& values) {
    float sum = 0.0f;
    for (const float value : values) sum += (value - mean_of(values)) * (value - mean_of(values));
    return sum / static_cast<float>(values.size());
  };
  float means[2], variances[2];
  std::vector<float> whole;
  for (int rank = 0; rank < 2; ++rank) {
    means[rank] = (1 - momentum) * previous_mean + momentum * mean_of(halves[rank]);
    variances[rank] = (1 - momentum) * previous_var + momentum * biased_var(halves[rank]);
    whole.insert(whole.end(), halves[rank].begin(), halves[rank].end());
  }
  all_reduce_statistics({&means[0], &means[1]}, {&variances[0], &variances[1]}, 1, momentum);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NEAR(means[rank], (1 - momentum) * previous_mean + momentum * mean_of(whole), 1e-6);
    EXPECT_NEAR(variances[rank], (1 - momentum) * previous_var + momentum * biased_var(whole), 1e-5);
  }
}

}  // namespace
}  // namespace tr
