// RANGE operations on CUDA against the CPU's, over the same arena of a CUDA plan, slot padding included.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "range_ops/input_buffer.h"
#include "range_ops/range_ops_cpu.h"
#include "support/cuda_pair.h"
#include "support/sixteen_bits.h"

namespace tr::test {
namespace {

constexpr float INF = std::numeric_limits<float>::infinity();
constexpr float NO_NUMBER = std::numeric_limits<float>::quiet_NaN();
/// Fused multiply-adds round once where the CPU may round twice.
constexpr double UPDATE_TOLERANCE = 2e-6;

constexpr RegionRange WEIGHTS{Region::W_FC_WEIGHT, Region::W_DEEP_CONV},
    COPIES{Region::A_FC_WEIGHT, Region::A_DEEP_CONV}, GRADIENTS{Region::G_BN_BIAS, Region::G_DEEP_CONV};

/// What the CPU and the card made of one arena.
class RangePair {
 public:
  RangePair(Precision precision, OptimizerKind optimizer, bool decay_all = false, int64_t width = 16,
            const std::function<void(CompileRequest&)>& change = {}) {
    CompileRequest request;
    request.model =
        seq(conv(width, 3, 1, 1), bn(), relu(), conv(5, 3, 1, 1), bn(), relu(), gap(), flatten(), fc(3));
    const Shape input(6, 4, 4, 3);
    request.inputs = {input, input, input, input, input, input};
    request.classes = 3;
    request.config.precision = precision;
    request.config.optimizer = optimizer;
    request.target = default_target(BackendKind::CUDA);
    request.schedule.base = 0.05;
    request.schedule.kind = ScheduleKind::COSINE;
    request.schedule.total_steps = 10;
    request.schedule.warmup_steps = 3;
    request.decay_norm_and_bias = decay_all;
    request.plan_only = true;
    if (change) change(request);
    model = compile(request, std::make_shared<const Catalog>(make_catalog()));
    mirror_ = make_device_mirror(request.target);
    host.assign(static_cast<size_t>(plan().total_bytes()), std::byte{0});
    cuda = host;
    device_ = mirror_->allocate(plan().total_bytes());
    scalar<float>(MOMENTUM) = scalar<float>(BETA1) = 0.9f;
    scalar<float>(BETA2) = 0.99f;
    scalar<float>(WEIGHT_DECAY) = 0.01f;
    scalar<float>(EPSILON) = 1e-8f;
    scalar<float>(TRUST_COEFFICIENT) = 0.02f;
    scalar<float>(LOSS_SCALE) = precision == Precision::FP16 ? 1024.0f : 1.0f;
  }

  const MemoryPlan& plan() const { return model.plan(Variant::TRAIN_BASE); }
  template <typename T>
  std::span<T> range(std::vector<std::byte>& arena, const RegionRange& regions) const {
    const auto [offset, size] = plan().region_range(regions.first, regions.last);
    return {reinterpret_cast<T*>(arena.data() + offset), static_cast<size_t>(size) / sizeof(T)};
  }
  template <typename T>
  T& scalar(BaselineId id) {
    return *at<T>(host, id);
  }
  template <typename T>
  T* at(std::vector<std::byte>& arena, TensorId id) const {
    return reinterpret_cast<T*>(arena.data() + plan().tensor(id).offset);
  }

  /// Elements, and not the slots' padding, of every weight, moment or gradient.
  void fill_parameters(uint32_t salt) {
    for (const Parameter& parameter : model.parameters) {
      const ParameterTensors& t = parameter.tensors;
      put(t.master, ++salt, 1.0, 0.0);
      put(t.first_moment, ++salt, 0.1, 0.0);
      put(t.second_moment, ++salt, 0.01, 0.006);
    }
    for (const Region region :
         {Region::B_PREV_MEAN, Region::B_PREV_VAR, Region::B_NEXT_MEAN, Region::B_NEXT_VAR})
      fill(range<float>(host, {region, region}), ++salt);
    fill_gradients(salt);
  }
  void fill_gradients(uint32_t salt) {
    for (const Parameter& parameter : model.parameters) {
      const ParameterTensors& t = parameter.tensors;
      const bool narrow = t.grad_16bit != NO_TENSOR;
      if (parameter.frozen) continue;  // zero, as backward leaves them
      put(narrow ? t.grad_16bit : t.grad, ++salt, double{scalar<float>(LOSS_SCALE)}, 0.0);
    }
  }

  /// From the same arena on both; on the card twice, as calls and as a graph, with the same bytes each time.
  /// Then the arena is the CPU's.
  void run(const std::vector<const GraphNode*>& nodes, InputBuffer buffer = InputBuffer::A) {
    const std::vector<std::byte> before = host;
    const Call call = mirror_->bind_ranges(nodes, model, plan(), device_, buffer);
    std::vector<std::byte> again = before;
    for (const bool captured : {false, true}) {
      cuda = again;
      mirror_->upload(device_, before.data(), std::ssize(before));
      mirror_->run(call, captured, "range operations");
      mirror_->download(again.data(), device_, std::ssize(before));
    }
    EXPECT_TRUE(cuda == again) << "two runs differ";
    for (const GraphNode* node : nodes) {
      if (node->range_op == RangeOp::RANGE_H2D_COPY_A) continue;
      RangeBinding binding{*node, model, plan(), host.data()};
      binding.from = node->from == NO_TENSOR ? NO_TENSOR : for_buffer(node->from, buffer);
      if (const Call on_cpu = bind_range_cpu(binding)) on_cpu();
    }
    const std::span<const int32_t> counters(at<int32_t>(cuda, SYNC_COUNTERS), size_t{NUM_SYNC_COUNTERS});
    EXPECT_TRUE(std::ranges::all_of(counters, [](int32_t counter) { return counter == 0; }));
  }

  /// Everything a step keeps. Gradients only where they were asked for: fused kernels do not unscale or widen
  /// them in memory.
  void expect_same(bool gradients) {
    const auto expect_close = [&](Region first, Region last, double tolerance) {
      EXPECT_TRUE(close_to(range<float>(cuda, {first, last}), range<float>(host, {first, last}), tolerance))
          << region_name(first) << " to " << region_name(last);
    };
    for (int role = 0; role < NUM_PARAM_ROLES; ++role)
      for (const Region block : {Region::W_BN_BIAS, Region::M_BN_BIAS, Region::V_BN_BIAS})
        if (is_condition_enabled(region_at(index_of(block) + role), plan().config()))
          expect_close(region_at(index_of(block) + role), region_at(index_of(block) + role),
                       UPDATE_TOLERANCE);
    if (is_lars(plan().config().optimizer))
      expect_close(Region::N_FC_WEIGHT, Region::N_DEEP_CONV, UPDATE_TOLERANCE);
    expect_close(Region::B_PREV_MEAN, Region::B_NEXT_VAR, 0.0);
    expect_close(Region::R_RESULT, Region::R_RESULT, 0.0);
    expect_close(Region::R_RESULT_ACCUMULATED, Region::R_RESULT_ACCUMULATED, UPDATE_TOLERANCE);
    if (gradients) expect_close(GRADIENTS.first, GRADIENTS.last, UPDATE_TOLERANCE);
    for (int id = LEARNING_RATE; id <= TRUST_COEFFICIENT; ++id) {
      const float want = *at<float>(host, id);
      EXPECT_NEAR(*at<float>(cuda, id), want, 1e-6 * std::abs(double{want})) << "scalar " << id;
    }
    for (const BaselineId id : {NAN_FLAG, STEP, CLEAN_STEPS, SKIPPED_STEPS, DROPOUT_SEED, DROPOUT_COUNTER})
      EXPECT_EQ(*at<int32_t>(cuda, id), *at<int32_t>(host, id)) << "scalar " << id;
    if (is_amp(plan().config().precision)) expect_copies_round_the_masters();
  }

 private:
  void put(TensorId id, uint32_t salt, double scale, double shift) {
    if (id == NO_TENSOR) return;
    const DTensor& tensor = plan().tensor(id);
    std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
    fill(values, salt, scale, shift);
    for (size_t i = 0; i < values.size(); ++i) {
      if (tensor.dtype == DType::FP32)
        at<float>(host, id)[i] = values[i];
      else
        at<uint16_t>(host, id)[i] = to_16bit(values[i], tensor.dtype);
    }
  }

  void expect_copies_round_the_masters() {
    const DType dtype = region_dtype(COPIES.first, plan().config());
    const std::span<const float> masters = range<float>(cuda, WEIGHTS);
    const std::span<const uint16_t> copies = range<uint16_t>(cuda, COPIES);
    ASSERT_EQ(masters.size(), copies.size());
    size_t wrong = 0;
    for (size_t i = 0; i < copies.size(); ++i) wrong += copies[i] != to_16bit(masters[i], dtype);
    EXPECT_EQ(wrong, 0u) << "of " << copies.size();
  }

 public:
  CompiledModel model;
  std::vector<std::byte> host, cuda;

 private:
  std::unique_ptr<DeviceMirror> mirror_;
  std::byte* device_ = nullptr;
};

/// The RANGE nodes of a training step from the first after BACKWARD on.
std::vector<const GraphNode*> tail_of(const CompiledModel& model) {
  std::vector<const GraphNode*> nodes;
  for (const GraphId part : program_parts(Program::TRAIN)) {
    if (part <= GraphId::BACKWARD) continue;
    for (const GraphNode& node : model.graph.part(part))
      if (node.kind == NodeKind::RANGE) nodes.push_back(&node);
  }
  return nodes;
}

GraphNode range_node(RangeOp op, std::vector<RegionRange> in, std::vector<RegionRange> out) {
  GraphNode node;
  node.kind = NodeKind::RANGE;
  node.name = range_op_name(op);
  node.range_op = op;
  node.in = std::move(in);
  node.out = std::move(out);
  return node;
}

class CudaRange : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
};

constexpr std::array OPTIMIZERS{OptimizerKind::SGD,          OptimizerKind::MOMENTUM, OptimizerKind::NESTEROV,
                                OptimizerKind::ADAM,         OptimizerKind::ADAMW,    OptimizerKind::LARS,
                                OptimizerKind::LARS_NESTEROV};
constexpr std::array PRECISIONS{Precision::FP32, Precision::FP16, Precision::BF16};

struct TailCase {
  Precision precision;
  OptimizerKind optimizer;
  bool decay_all;
  std::string variant{};  ///< "", or what else is asked for
  std::function<void(CompileRequest&)> change{};

  friend void PrintTo(const TailCase& c, std::ostream* out) {
    *out << precision_name(c.precision) << ' ' << optimizer_name(c.optimizer)
         << (c.decay_all ? " decays all" : "") << ' ' << c.variant;
  }
};

std::vector<TailCase> tail_cases() {
  std::vector<TailCase> cases;
  for (const Precision precision : PRECISIONS)
    for (const OptimizerKind optimizer : OPTIMIZERS)
      for (const bool decay_all : {false, true}) cases.push_back({precision, optimizer, decay_all});
  const auto clip = [](CompileRequest& request) { request.clip_norm = 0.5; };
  const auto rarely_clip = [](CompileRequest& request) { request.clip_norm = 1e6; };
  const auto freeze = [](CompileRequest& request) { request.freeze = {"0.*", "4.weight", "8.bias"}; };
  const auto freeze_weights = [](CompileRequest& request) {
    request.freeze = {"0.weight", "3.*", "8.weight"};
  };
  const auto decouple = [](CompileRequest& request) { request.decoupled_decay = true; };
  for (const Precision precision : PRECISIONS) {
    for (const OptimizerKind optimizer :
         {OptimizerKind::NESTEROV, OptimizerKind::ADAMW, OptimizerKind::LARS}) {
      cases.push_back({precision, optimizer, false, "clips", clip});
      cases.push_back({precision, optimizer, false, "rarely_clips", rarely_clip});
      cases.push_back({precision, optimizer, true, "freezes", freeze});
      cases.push_back(
          {precision, optimizer, false, "freezes_weights_and_clips", [=](CompileRequest& request) {
             freeze_weights(request);
             clip(request);
           }});
    }
    for (const OptimizerKind optimizer :
         {OptimizerKind::SGD, OptimizerKind::MOMENTUM, OptimizerKind::NESTEROV, OptimizerKind::ADAMW})
      cases.push_back({precision, optimizer, true, "decouples_decay", decouple});
  }
  return cases;
}

class CudaTail : public testing::TestWithParam<TailCase> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
  RangePair make_pair(int64_t width = 16) const {
    RangePair pair(GetParam().precision, GetParam().optimizer, GetParam().decay_all, width,
                   GetParam().change);
    pair.fill_parameters(40);
    const GraphNode cast = range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHTS}, {COPIES});
    if (is_amp(GetParam().precision)) pair.run({&cast});
    for (int32_t i = 0; i < 6; ++i) pair.at<int32_t>(pair.host, LABEL)[i] = i % 4 - 1;
    pair.scalar<float>(LOSS) = 1.25f;
    pair.scalar<float>(TOP1) = 0.5f;
    pair.scalar<float>(TOP5) = 0.75f;
    return pair;
  }
};

TEST_P(CudaTail, FollowsTheCpuForSevenSteps) {
  for (const int64_t width : {1, 16, 100}) {
    RangePair pair = make_pair(width);
    const std::vector<const GraphNode*> nodes = tail_of(pair.model);
    for (uint32_t step = 0; step < 7; ++step) {
      pair.fill_gradients(100 + 50 * step);
      pair.run(nodes);
      pair.expect_same(false);
      if (HasFailure()) return;
    }
  }
}

/// Each node by itself does what it does in the CPU's list.
TEST_P(CudaTail, EveryNodeAlone) {
  RangePair pair = make_pair();
  for (uint32_t step = 0; step < 2; ++step) {
    pair.fill_gradients(100 + 50 * step);
    for (const GraphNode* node : tail_of(pair.model)) {
      SCOPED_TRACE(node->name);
      const bool updates_weights = !node->out.empty() && node->out[0].last == Region::W_DEEP_CONV;
      pair.run({node});
      // Between the update and the cast the copies are a step behind.
      if (!updates_weights) pair.expect_same(true);
      if (HasFailure()) return;
    }
  }
}

/// One value anywhere that is not finite: nothing but counters and the scale changes.
TEST_P(CudaTail, SkipsAStepWhereverAGradientIsNotFinite) {
  RangePair pair = make_pair();
  const std::vector<const GraphNode*> nodes = tail_of(pair.model);
  for (const Parameter& parameter : pair.model.parameters) {
    const bool narrow = parameter.tensors.grad_16bit != NO_TENSOR;
    const TensorId id = narrow ? parameter.tensors.grad_16bit : parameter.tensors.grad;
    const DTensor& tensor = pair.plan().tensor(id);
    const int64_t last = tensor.shape.numel() - 1;
    for (const auto& [place, value] :
         {std::pair(int64_t{0}, INF), std::pair(last, NO_NUMBER), std::pair(last / 2, -INF)}) {
      pair.fill_gradients(70);
      if (narrow)
        pair.at<uint16_t>(pair.host, id)[place] = to_16bit(value, tensor.dtype);
      else
        pair.at<float>(pair.host, id)[place] = value;
      std::vector<std::byte> before = pair.host;
      pair.run(nodes);
      SCOPED_TRACE(cat(parameter.name, " element ", place, " is ", value));
      EXPECT_EQ(*pair.at<int32_t>(pair.cuda, NAN_FLAG), 1);
      pair.expect_same(false);
      for (const RegionRange& kept : {RegionRange{Region::B_PREV_MEAN, Region::B_PREV_VAR},
                                      RegionRange{Region::W_BN_BIAS, Region::W_DEEP_CONV},
                                      RegionRange{Region::M_BN_BIAS, Region::M_DEEP_CONV},
                                      RegionRange{Region::V_BN_BIAS, Region::V_DEEP_CONV}}) {
        const std::span<std::byte> now = pair.range<std::byte>(pair.cuda, kept);
        EXPECT_TRUE(std::ranges::equal(now, pair.range<std::byte>(before, kept))) << region_name(kept.first);
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaTail, testing::ValuesIn(tail_cases()), [](const auto& tested) {
  const TailCase& c = tested.param;
  return cat(precision_name(c.precision), '_', optimizer_name(c.optimizer), c.decay_all ? "_decays_all" : "",
             c.variant.empty() ? "" : "_", c.variant);
});

/// More segments than one kernel takes: every other layer is frozen, and LARS has a ratio for each tensor.
TEST_F(CudaRange, ManySegmentsTakeSeveralKernels) {
  for (const OptimizerKind optimizer : {OptimizerKind::ADAM, OptimizerKind::LARS}) {
    for (const Precision precision : {Precision::FP32, Precision::FP16}) {
      RangePair pair(precision, optimizer, false, 8, [](CompileRequest& request) {
        std::vector<BluePrint> layers;
        for (int i = 0; i < 120; ++i) layers.push_back(conv(3, 1));
        layers.insert(layers.end(), {gap(), flatten(), fc(3)});
        request.model = BluePrint{};
        request.model.kind = BluePrint::Kind::SEQ;
        request.model.children = std::move(layers);
        for (int i = 1; i < 40; i += 2) request.freeze.push_back(cat(i, ".*"));
      });
      pair.fill_parameters(40);
      const GraphNode cast = range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHTS}, {COPIES});
      if (is_amp(precision)) pair.run({&cast});
      const std::vector<const GraphNode*> nodes = tail_of(pair.model);
      for (uint32_t step = 0; step < 3; ++step) {
        pair.fill_gradients(100 + 500 * step);
        pair.run(nodes);
        pair.expect_same(false);
      }
    }
  }
}

TEST_F(CudaRange, ClearsSingleTensors) {
  RangePair pair(Precision::FP16, OptimizerKind::SGD);
  GraphNode clear = range_node(RangeOp::RANGE_CLEAR, {}, {});
  for (const size_t p : {size_t{0}, size_t{2}, size_t{3}, size_t{7}}) {
    const ParameterTensors& t = pair.model.parameters.at(p).tensors;
    clear.tensors.push_back(t.grad_16bit != NO_TENSOR ? t.grad_16bit : t.grad);
  }
  for (std::byte& byte : pair.host) byte = std::byte{7};
  std::ranges::fill(pair.range<int32_t>(pair.host, {Region::S_SCALAR_INT32, Region::S_SCALAR_INT32}), 0);
  pair.run({&clear});
  EXPECT_TRUE(pair.cuda == pair.host);
}

TEST_F(CudaRange, LossScaleGrowsAsOftenAsAskedForOrNever) {
  for (const int64_t growth_steps : {0, 3}) {
    RangePair pair(Precision::FP16, OptimizerKind::SGD, false, 16,
                   [=](CompileRequest& request) { request.loss_scale_growth_steps = growth_steps; });
    const std::vector<const GraphNode*> nodes = tail_of(pair.model);
    for (const bool overflow : {false, false, false, true, false, false, false}) {
      pair.range<float>(pair.host, {Region::G_FC_BIAS, Region::G_FC_BIAS})[1] = overflow ? INF : 0.5f;
      pair.run(nodes);
      pair.expect_same(false);
    }
    EXPECT_EQ(*pair.at<float>(pair.cuda, LOSS_SCALE), growth_steps == 0 ? 1024.0f : 2048.0f);
  }
}

TEST_F(CudaRange, LossScaleHalvesToOneAndDoublesAfterTwoThousandCleanSteps) {
  RangePair pair(Precision::FP16, OptimizerKind::SGD);
  const std::vector<const GraphNode*> nodes = tail_of(pair.model);
  const float largest = std::numeric_limits<float>::max();
  struct Case {
    float scale;
    int32_t clean_steps;
    bool overflow;
    float expected;
  };
  for (const Case& c : {Case{4.0f, 7, true, 2.0f}, Case{1.0f, 7, true, 1.0f}, Case{8.0f, 1998, false, 8.0f},
                        Case{8.0f, 1999, false, 16.0f}, Case{largest / 2.0f, 1999, false, largest / 2.0f}}) {
    pair.scalar<float>(LOSS_SCALE) = c.scale;
    pair.scalar<int32_t>(CLEAN_STEPS) = c.clean_steps;
    pair.range<float>(pair.host, {Region::G_FC_BIAS, Region::G_FC_BIAS})[1] = c.overflow ? INF : 0.5f;
    pair.run(nodes);
    pair.expect_same(false);
    EXPECT_EQ(*pair.at<float>(pair.cuda, LOSS_SCALE), c.expected) << c.scale << ' ' << c.clean_steps;
  }
}

TEST_F(CudaRange, EveryScheduleOnTheDevice) {
  RangePair pair(Precision::FP32, OptimizerKind::ADAM);
  const GraphNode advance = range_node(RangeOp::RANGE_ADVANCE_SCALARS, {}, {});
  for (const ScheduleKind kind :
       {ScheduleKind::CONSTANT, ScheduleKind::STEP, ScheduleKind::COSINE, ScheduleKind::LINEAR,
        ScheduleKind::MULTI_STEP, ScheduleKind::EXPONENTIAL, ScheduleKind::POLYNOMIAL,
        ScheduleKind::COSINE_RESTARTS, ScheduleKind::ONE_CYCLE}) {
    pair.model.request.schedule = {.kind = kind,
                                   .base = 0.3,
                                   .final_fraction = 0.05,
                                   .warmup_start = 0.1,
                                   .gamma = 0.3,
                                   .warmup_steps = 20,
                                   .total_steps = 1000,
                                   .decay_steps = 90,
                                   .num_milestones = 2,
                                   .milestones = {90, 500},
                                   .power = 1.5,
                                   .restart_steps = 90,
                                   .restart_factor = 2};
    for (const int32_t step : {0, 1, 19, 20, 21, 89, 90, 91, 500, 777, 998, 999, 1000, 5000}) {
      SCOPED_TRACE(cat("kind ", static_cast<int>(kind), " step ", step));
      pair.scalar<int32_t>(STEP) = step;
      pair.run({&advance});
      pair.expect_same(true);
    }
  }
}

TEST_F(CudaRange, CastsLikeTheTables) {
  std::vector<float> values{0.0f,      -0.0f,     1.0f,    -2.5f,      65504.0f, 65519.0f, 65520.0f,
                            1e30f,     -1e30f,    3.4e38f, 0x1p-24f,   0x1p-25f, 0x3p-25f, 0x1p-14f,
                            0x1p-133f, 0x3p-134f, 1e-40f,  -0x1p-149f, INF,      -INF,     NO_NUMBER};
  for (int i = 0; i < 64; ++i) values.push_back(1.0f + static_cast<float>(i) * 0x1p-13f);
  for (const Precision precision : {Precision::FP16, Precision::BF16}) {
    RangePair pair(precision, OptimizerKind::SGD);
    const std::span<float> wide = pair.range<float>(pair.host, WEIGHTS);
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = values[i % values.size()];
    const GraphNode narrow = range_node(RangeOp::RANGE_CAST_FP32_TO_FP16, {WEIGHTS}, {COPIES});
    pair.run({&narrow});
    const std::span<uint16_t> want = pair.range<uint16_t>(pair.host, COPIES),
                              got = pair.range<uint16_t>(pair.cuda, COPIES);
    const DType dtype = compute_dtype(precision);
    for (size_t i = 0; i < want.size(); ++i) {
      const float expected = from_16bit(want[i], dtype), value = from_16bit(got[i], dtype);
      ASSERT_TRUE(want[i] == got[i] || (std::isnan(expected) && std::isnan(value)))
          << values[i % values.size()] << " became " << value << ", expected " << expected;
    }
  }
}

TEST_F(CudaRange, EverySixteenBitValueWidens) {
  for (const Precision precision : {Precision::FP16, Precision::BF16}) {
    RangePair pair(precision, OptimizerKind::SGD);
    const GraphNode widen = range_node(RangeOp::RANGE_CAST_FP16_TO_FP32, {COPIES}, {WEIGHTS});
    const std::span<uint16_t> narrow = pair.range<uint16_t>(pair.host, COPIES);
    for (size_t start = 0; start < 65536; start += narrow.size()) {
      for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(start + i);
      pair.run({&widen});
      const std::span<float> want = pair.range<float>(pair.host, WEIGHTS),
                             got = pair.range<float>(pair.cuda, WEIGHTS);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(std::bit_cast<uint32_t>(want[i]) == std::bit_cast<uint32_t>(got[i]) ||
                    (std::isnan(want[i]) && std::isnan(got[i])))
            << start + i;
    }
  }
}

TEST_F(CudaRange, ClearCopyAndLabelsKeepToTheirRange) {
  RangePair pair(Precision::FP16, OptimizerKind::MOMENTUM);
  const GraphNode clear = range_node(RangeOp::RANGE_CLEAR, {}, {GRADIENTS});
  const GraphNode copy = range_node(RangeOp::RANGE_D2D_COPY, {{Region::B_NEXT_MEAN, Region::B_NEXT_VAR}},
                                    {{Region::B_PREV_MEAN, Region::B_PREV_VAR}});
  GraphNode copy_when_clean = copy;
  copy_when_clean.only_when_clean = true;
  GraphNode labels = range_node(RangeOp::RANGE_D2D_COPY, {}, {});
  labels.from = INPUT_A_LABEL;
  labels.to = LABEL;
  for (size_t i = 0; i < pair.host.size(); ++i) pair.host[i] = static_cast<std::byte>(i * 7 % 251);
  std::ranges::fill(pair.range<int32_t>(pair.host, {Region::S_SCALAR_INT32, Region::S_SCALAR_INT32}), 0);
  for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B}) {
    pair.run({&clear, &labels}, buffer);
    EXPECT_TRUE(pair.cuda == pair.host);
    for (const int32_t flag : {0, 1}) {
      pair.scalar<int32_t>(NAN_FLAG) = flag;
      pair.run({&copy_when_clean});
      EXPECT_TRUE(pair.cuda == pair.host) << "flag " << flag;
    }
    pair.run({&copy});
    EXPECT_TRUE(pair.cuda == pair.host);
  }
}

}  // namespace
}  // namespace tr::test
