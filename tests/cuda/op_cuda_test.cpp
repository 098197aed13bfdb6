// Every operator on CUDA, in each element type, against the CPU's FP32 kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "support/conv_statistics.h"
#include "support/cuda_pair.h"
#include "support/reference.h"

namespace tr::test {
namespace {

constexpr std::array DTYPES{DType::FP32, DType::FP16, DType::BF16};

Attributes conv_attributes(int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding,
                           bool bias = true, const std::string& activation = "", int64_t groups = 1) {
  return {{"out_channels", out_channels}, {"kernel", kernel}, {"stride", stride},
          {"padding", padding},           {"groups", groups}, {"bias", bias},
          {"activation", activation}};
}

Attributes pool_attributes(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

Attributes ceil_attributes(int64_t kernel, int64_t stride, int64_t padding) {
  Attributes attrs = pool_attributes(kernel, stride, padding);
  attrs.set("ceil", true);
  return attrs;
}

Attributes fc_attributes(int64_t out_features, bool bias = true, const std::string& activation = "") {
  return {{"out_features", out_features}, {"bias", bias}, {"activation", activation}};
}

OpCase make_case(std::string name, std::string op, std::vector<Shape> x, Attributes attrs = {}) {
  return {.op = std::move(op),
          .attrs = std::move(attrs),
          .x = std::move(x),
          .salt = 23,
          .layer = std::move(name)};
}

OpCase on_input(OpCase c) {
  c.reads_network_input = true;
  c.needs_dx.assign(c.x.size(), false);
  return c;
}

OpCase flattened(OpCase c) {
  c.flatten_x = true;
  return c;
}

OpCase with_gradients(OpCase c, int gradients) {
  c.gradients = gradients;
  return c;
}

OpCase loss(std::string name, const Shape& x, float smoothing, float loss_scale = 1.0f) {
  OpCase c = make_case(std::move(name), "softmax_cross_entropy", {x});
  c.x_scale = 6.0;
  c.label_smoothing = smoothing;
  c.loss_scale = loss_scale;
  return c;
}

/// The elementwise activations with their attributes, by the name of a case.
std::vector<std::pair<std::string, Attributes>> activations() {
  return {{"sigmoid", {}},
          {"tanh", {}},
          {"silu", {}},
          {"hardswish", {}},
          {"hardsigmoid", {}},
          {"relu6", {}},
          {"elu", {}},
          {"gelu", {}},
          {"elu", {{"alpha", -0.5}}},
          {"gelu", {{"approximate", std::string("tanh")}}}};
}

OpCase activation_case(const std::string& op, const Attributes& attrs, const Shape& x) {
  std::string name = cat(op, attrs.items().empty() ? "" : "_other");
  for (const int64_t extent : {x.n(), x.h(), x.w(), x.c()}) name += cat('_', extent);
  OpCase c = make_case(name, op, {x}, attrs);
  c.x_scale = 16.0;
  return c;
}

OpCase mixed(OpCase c, float share) {
  c.attrs.set("mix", true);
  c.mix_share = share;
  return c;
}

/// What ops.json has no case for: padded channels, the network's input, sizes that need many blocks.
std::vector<OpCase> own_cases() {
  const std::string relu = "relu";
  const Shape image(2, 9, 7, 3), gray(3, 9, 9, 1), five(3, 5, 3, 5), twenty(1, 9, 9, 20), eight(3, 3, 5, 8);
  std::vector<OpCase> cases{
      make_case("conv_twenty", "conv", {twenty}, conv_attributes(20, 3, 1, 1)),
      make_case("conv_twenty_relu", "conv", {twenty}, conv_attributes(20, 3, 2, 1, true, relu)),
      make_case("conv_groups_of_three", "conv", {Shape(1, 5, 5, 6)},
                conv_attributes(4, 3, 1, 1, true, "", 2)),
      make_case("conv_one_pixel", "conv", {Shape(3, 1, 1, 20)}, conv_attributes(5, 1, 1, 0)),
      make_case("conv_many_pixels", "conv", {Shape(3, 33, 31, 24)}, conv_attributes(40, 3, 1, 1)),
      on_input(make_case("conv_image", "conv", {image}, conv_attributes(8, 3, 1, 1))),
      on_input(make_case("conv_image_to_three", "conv", {image}, conv_attributes(3, 3, 2, 1, false))),
      on_input(make_case("conv_image_relu", "conv", {image}, conv_attributes(20, 5, 2, 2, true, relu))),
      on_input(make_case("conv_five_channel_input", "conv", {five}, conv_attributes(8, 3, 1, 1))),
      on_input(make_case("conv_gray", "conv", {gray}, conv_attributes(1, 3, 1, 1))),
      on_input(flattened(make_case("fc_gray", "fc", {gray}, fc_attributes(33, true, relu)))),
      on_input(flattened(make_case("fc_image", "fc", {image}, fc_attributes(20)))),
      on_input(
          flattened(make_case("fc_mnist", "fc", {Shape(50, 28, 28, 1)}, fc_attributes(256, true, relu)))),
      flattened(make_case("fc_after_five_channels", "fc", {five}, fc_attributes(8))),
      flattened(make_case("fc_after_twenty_channels", "fc", {twenty}, fc_attributes(3, false, relu))),
      flattened(make_case("fc_one_sample_map", "fc", {Shape(1, 3, 3, 8)}, fc_attributes(16))),
      make_case("fc_twenty", "fc", {Shape(3, 1, 1, 20)}, fc_attributes(20, true, relu)),
      make_case("fc_head", "fc", {Shape(200, 1, 1, 256)}, fc_attributes(10)),
      make_case("fc_large", "fc", {Shape(64, 1, 1, 512)}, fc_attributes(1000, true, relu)),
      make_case("bn_five", "bn", {five}),
      make_case("bn_twenty_relu", "bn", {twenty}, {{"activation", relu}}),
      on_input(make_case("bn_image", "bn", {image})),
      on_input(make_case("bn_gray_relu", "bn", {gray}, {{"activation", relu}})),
      make_case("bn_many_pixels", "bn", {Shape(3, 56, 55, 64)}, {{"activation", relu}}),
      make_case("bn_many_channels", "bn", {Shape(2, 7, 7, 2048)}),
      make_case("bn_frozen", "bn", {five}, {{"frozen", true}}),
      make_case("bn_frozen_relu", "bn", {Shape(3, 56, 55, 64)}, {{"frozen", true}, {"activation", relu}}),
      make_case("bn_frozen_residual_relu", "bn", {twenty, twenty},
                {{"frozen", true}, {"residual", true}, {"activation", relu}}),
      make_case("bn_frozen_one_value", "bn", {Shape(1, 1, 1, 8)}, {{"frozen", true}}),
      make_case("relu_many", "relu", {Shape(4, 31, 33, 64)}),
      make_case("relu_twenty", "relu", {twenty}),
      make_case("leaky_relu_twenty", "leaky_relu", {twenty}, {{"negative_slope", -0.5}}),
      on_input(make_case("relu_image", "relu", {image})),
      on_input(make_case("leaky_relu_image", "leaky_relu", {image})),
      on_input(make_case("identity_image", "identity", {image})),
      on_input(make_case("maxpool_image", "maxpool", {image}, pool_attributes(2, 2, 0))),
      on_input(make_case("avgpool_image", "avgpool", {image}, pool_attributes(3, 2, 1))),
      on_input(make_case("gap_image", "gap", {image})),
      on_input(make_case("dropout_image", "dropout", {image}, {{"probability", 0.4}})),
      make_case("add_twenty", "add", {twenty, twenty}),
      make_case("add_one_channel", "add", {gray, gray}),
      make_case("maxpool_ceil_many", "maxpool", {Shape(2, 28, 30, 64)}, ceil_attributes(3, 2, 0)),
      make_case("maxpool_ceil_twenty", "maxpool", {twenty}, ceil_attributes(2, 2, 0)),
      on_input(make_case("maxpool_ceil_image", "maxpool", {image}, ceil_attributes(2, 2, 0))),
      make_case("concat_twenty", "concat", {twenty, Shape(1, 9, 9, 3), twenty}),
      make_case("concat_padded", "concat", {five, five}),
      make_case("concat_many", "concat", {Shape(4, 28, 28, 64), Shape(4, 28, 28, 128), Shape(4, 28, 28, 32)}),
      make_case("concat_dense", "concat", {Shape(3, 7, 7, 992), Shape(3, 7, 7, 32)}),
      on_input(make_case("concat_image", "concat", {image, image})),
      make_case("channel_scale_twenty", "channel_scale", {twenty, Shape(1, 1, 1, 20)}),
      make_case("channel_scale_many", "channel_scale", {Shape(3, 28, 27, 240), Shape(3, 1, 1, 240)}),
      on_input(make_case("channel_scale_image", "channel_scale", {image, Shape(2, 1, 1, 3)})),
      make_case("adaptive_avgpool_twenty", "adaptive_avgpool", {twenty}, {{"size", int64_t{4}}}),
      make_case("adaptive_avgpool_many", "adaptive_avgpool", {Shape(3, 10, 12, 512)}, {{"size", int64_t{7}}}),
      on_input(make_case("adaptive_avgpool_image", "adaptive_avgpool", {image}, {{"size", int64_t{5}}})),
      make_case("maxpool_stem", "maxpool", {Shape(2, 32, 32, 64)}, pool_attributes(3, 2, 1)),
      make_case("avgpool_twenty", "avgpool", {twenty}, pool_attributes(3, 3, 0)),
      make_case("gap_twenty", "gap", {twenty}),
      make_case("gap_many_channels", "gap", {Shape(3, 7, 7, 2048)}),
      make_case("dropout_one_element", "dropout", {Shape(1, 1, 1, 1)}, {{"probability", 0.5}}),
      make_case("dropout_three", "dropout", {Shape(3, 1, 1, 3)}, {{"probability", 0.3}}),
      make_case("dropout_five", "dropout", {five}, {{"probability", 0.5}}),
      make_case("dropout_twenty", "dropout", {twenty}, {{"probability", 0.9}}),
      make_case("dropout_many", "dropout", {Shape(7, 1, 1, 4096)}, {{"probability", 0.5}}),
      make_case("dropout_everything", "dropout", {five}, {{"probability", 1.0}}),
      loss("loss_twenty_classes", Shape(3, 1, 1, 20), 0.1f),
      loss("loss_one_class", Shape(1, 1, 1, 1), 0.0f),
      loss("loss_more_samples_than_threads", Shape(1500, 1, 1, 10), 0.1f, 512.0f),
      loss("loss_imagenet", Shape(70, 1, 1, 1000), 0.1f, 64.0f),
      loss("loss_classes_over_a_warp", Shape(9, 1, 1, 33), 0.0f),
      mixed(loss("loss_mixed", Shape(9, 1, 1, 10), 0.1f), 0.3f),
      mixed(loss("loss_mixed_to_the_partner", Shape(8, 1, 1, 33), 0.0f, 16.0f), 0.75f),
      mixed(loss("loss_mixed_imagenet", Shape(21, 1, 1, 1000), 0.1f, 64.0f), 0.4f),
      mixed(loss("loss_mixed_by_nothing", Shape(7, 1, 1, 20), 0.1f), 0.0f),
  };
  for (const auto& [op, attrs] : activations()) {
    for (const Shape& x : {Shape(1, 1, 1, 1), five, eight, twenty, Shape(3, 37, 33, 64)})
      cases.push_back(activation_case(op, attrs, x));
    cases.push_back(on_input(activation_case(op, attrs, image)));
  }
  for (const Shape& x : {Shape(1, 1, 1, 1), five, eight, twenty, Shape(3, 57, 55, 96), Shape(5, 7, 7, 768),
                         Shape(130, 1, 1, 33), Shape(2, 2, 2, 2050)}) {
    const std::string size = cat(x.n(), '_', x.h(), '_', x.c());
    // Of one channel nothing but rounding is left of the normalized value and of dx.
    if (x.c() > 1) cases.push_back(make_case("layer_norm_" + size, "layer_norm", {x}));
    cases.push_back(make_case("layer_scale_" + size, "layer_scale", {x}));
    for (const std::string mode : {"row", "batch"})
      cases.push_back(make_case(cat("stochastic_depth_", mode, '_', size), "stochastic_depth", {x},
                                {{"probability", 0.4}, {"mode", mode}}));
  }
  cases.push_back(on_input(make_case("layer_norm_image", "layer_norm", {image})));
  cases.push_back(on_input(make_case("layer_scale_image", "layer_scale", {image})));
  cases.push_back(
      on_input(make_case("stochastic_depth_image", "stochastic_depth", {image}, {{"probability", 0.5}})));
  for (const int64_t kernel : {3, 5, 7})
    for (const int64_t stride : {1, 2})
      cases.push_back(make_case(cat("conv_depthwise_", kernel, "_stride_", stride), "conv",
                                {Shape(2, 19, 17, 72)},
                                conv_attributes(72, kernel, stride, kernel / 2, false, "", 72)));
  for (const int gradients : {1, 2})
    for (const std::string& activation : {std::string(), relu})
      for (const Shape& x : {Shape(3, 4, 4, 1), five, eight, twenty, Shape(2, 29, 31, 64)}) {
        OpCase c = make_case(cat("bn_residual", activation.empty() ? "_" : "_relu_", x.c(), "_channels_",
                                 gradients, "_gradients"),
                             "bn", {x, x}, {{"residual", true}, {"activation", activation}});
        cases.push_back(with_gradients(std::move(c), gradients));
      }
  return cases;
}

/// Every case in every type.
std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = own_cases(), all;
  for (const nlohmann::json& json : load_reference("ops.json")) cases.push_back(op_case_of(json));
  for (OpCase& c : cases) {
    // No plan has a gradient of the network's input, whose pixels are packed more densely than a feature
    // map's.
    if (c.reads_network_input) c.needs_dx.assign(c.x.size(), false);
    for (const DType dtype : DTYPES) {
      c.dtype = dtype;
      all.push_back(c);
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<OpCase>& tested) {
  return cat(tested.param.layer, '_', dtype_name(tested.param.dtype));
}

class CudaTest : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
  const Catalog catalog_ = make_catalog();
};

class CudaOp : public CudaTest {};

TEST_P(CudaOp, AgreesWithTheCpu) {
  CudaPair pair(catalog_, GetParam());
  pair.run(Pass::FORWARD);
  pair.run_backward();
  pair.run(Pass::INFERENCE);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaOp, testing::ValuesIn(all_cases()), case_name);

TEST(CudaOpTable, CoversEveryOperatorWithKernels) {
  std::set<std::string> covered{"flatten"};  // a view without kernels
  for (const OpCase& c : all_cases()) covered.insert(c.op);
  for (const std::string& name : make_catalog().names()) EXPECT_TRUE(covered.contains(name)) << name;
}

// Values that are not numbers.

class CudaNotFinite : public CudaTest {};

/// NaN, both infinities and values beside them.
TEST_P(CudaNotFinite, AgreesWithTheCpu) {
  CudaPair pair(catalog_, GetParam());
  constexpr float INF = std::numeric_limits<float>::infinity(),
                  NO_NUMBER = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = pair.cuda.get(Port::X);
  const auto stride = static_cast<size_t>(2 * pair.cuda.query().x[0].c());
  // One channel each, so that the others show whether anything leaks.
  for (size_t i = 0; i < x.size(); i += stride) x[i] = i % (2 * stride) == 0 ? NO_NUMBER : INF;
  for (size_t i = 2; i < x.size(); i += 2 * stride) x[i] = -INF;
  pair.cuda.set(Port::X, 0, x);
  pair.copy_inputs();
  pair.run(Pass::FORWARD, Expect::ANY);
  pair.run(Pass::INFERENCE, Expect::ANY);
}

std::vector<OpCase> not_finite_cases() {
  const Shape x(2, 4, 4, 5);
  std::vector<OpCase> cases, all;
  for (const OpCase& c :
       {make_case("relu", "relu", {x}), make_case("leaky_relu", "leaky_relu", {x}),
        make_case("add", "add", {x, x}), make_case("identity", "identity", {x}),
        make_case("maxpool", "maxpool", {x}, pool_attributes(3, 1, 1)),
        make_case("maxpool_ceil", "maxpool", {Shape(2, 4, 4, 8)}, ceil_attributes(3, 2, 0)),
        make_case("concat", "concat", {x, Shape(2, 4, 4, 3)}),
        make_case("channel_scale", "channel_scale", {x, Shape(2, 1, 1, 5)}),
        make_case("adaptive_avgpool", "adaptive_avgpool", {x}, {{"size", int64_t{3}}}),
        make_case("avgpool", "avgpool", {x}, pool_attributes(2, 2, 0)), make_case("gap", "gap", {x}),
        make_case("loss", "softmax_cross_entropy", {Shape(12, 1, 1, 5)}),
        make_case("loss_smoothing", "softmax_cross_entropy", {Shape(12, 1, 1, 5)}),
        make_case("loss_many_classes", "softmax_cross_entropy", {Shape(12, 1, 1, 100)}),
        make_case("layer_norm", "layer_norm", {x}), make_case("layer_scale", "layer_scale", {x}),
        make_case("stochastic_depth", "stochastic_depth", {x}, {{"probability", 0.5}})})
    cases.push_back(c);
  for (const auto& [op, attrs] : activations()) cases.push_back(activation_case(op, attrs, x));
  for (OpCase c : cases)
    for (const DType dtype : DTYPES) {
      c.dtype = dtype;
      if (c.layer == "loss_smoothing") c.label_smoothing = 0.1f;
      all.push_back(c);
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaNotFinite, testing::ValuesIn(not_finite_cases()), case_name);

class CudaLoss : public CudaTest {};

/// A label that is no class makes the loss NaN, one of −1 does not count; nobody counting gives zeros.
TEST_P(CudaLoss, LabelsThatAreNoClass) {
  OpCase c = GetParam();
  for (const std::vector<int32_t>& labels : {std::vector<int32_t>{-1, 2, 9, -1, 0, 1},
                                             {7, 1, 1, 0, 2, -1},
                                             {-1, -1, -1, -1, -1, -1},
                                             {0, -2, 1, 2, 0, 1}}) {
    c.labels = labels;
    CudaPair pair(catalog_, c);
    pair.run(Pass::FORWARD, Expect::ANY);
    pair.run(Pass::INFERENCE, Expect::ANY);
  }
}

/// Equal logits: the first of them wins, and the others count against it.
TEST_P(CudaLoss, Ties) {
  CudaPair pair(catalog_, GetParam());
  std::vector<float> x = pair.cuda.get(Port::X);
  for (float& value : x) value = std::round(value * 2.0f);
  pair.cuda.set(Port::X, 0, x);
  pair.copy_inputs();
  pair.run(Pass::FORWARD);
  pair.run(Pass::INFERENCE);
}

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> all;
  for (const int64_t classes : {7, 10, 40, 1000})
    for (const DType dtype : DTYPES) {
      OpCase c = loss(cat("classes_", classes), Shape(6, 1, 1, classes), 0.1f, 8.0f);
      c.x_scale = 3.0;
      c.dtype = dtype;
      all.push_back(c);
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaLoss, testing::ValuesIn(loss_cases()), case_name);

// Statistics that a convolution leaves for the batch norm behind it.

class CudaConvStatistics : public CudaTest {};

TEST_P(CudaConvStatistics, AreThoseOfY) { check_convolution_with_statistics(catalog_, GetParam()); }

std::vector<OpCase> statistics_cases(const std::string& op) {
  std::vector<OpCase> all;
  for (OpCase& c : all_cases()) {
    // A fused ReLU stands before the batch norm; with a large mean the sums alone lose too much.
    const bool writes = c.op != "conv" || !c.attrs.has("activation") || c.attrs.text("activation").empty();
    const bool takes = op != "bn" || (!c.reads_network_input && !c.attrs.has("frozen"));
    if (c.op == op && writes && c.x_shift == 0.0 && takes) all.push_back(c);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaConvStatistics, testing::ValuesIn(statistics_cases("conv")), case_name);

class CudaBnStatistics : public CudaTest {};

TEST_P(CudaBnStatistics, ReplaceItsOwn) {
  OpCase c = GetParam();
  c.statistics = true;
  CudaPair pair(catalog_, c);
  pair.run(Pass::FORWARD);
  pair.run_backward();
}

/// With an offset only the running mean differs.
TEST_P(CudaBnStatistics, AnOffsetMovesTheRunningMean) {
  OpCase c = GetParam();
  c.statistics = true;
  c.statistics_rows = 3;
  CudaPair pair(catalog_, c);
  for (OpRig* rig : {&pair.cuda, &pair.cpu}) rig->run(Pass::FORWARD);
  for (const auto& [port, index] : {std::pair(Port::Y, 0), std::pair(Port::STATE_NEXT, 1)})
    EXPECT_TRUE(close_to(pair.cuda.get(port, index), pair.cpu.get(port, index),
                         tolerance_of(pair.cuda.tensor(port, index).dtype)))
        << port_name(port) << '[' << index << ']';
  std::vector<float> mean = pair.cpu.get(Port::STATE_NEXT, 0);
  const std::vector<float> statistics = pair.cuda.get(Port::STATISTICS);
  const auto momentum = static_cast<float>(pair.cuda.query().attrs.number("momentum"));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] += momentum * statistics[2 * mean.size() + i];
  EXPECT_TRUE(close_to(pair.cuda.get(Port::STATE_NEXT, 0), mean, 1e-4));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaBnStatistics, testing::ValuesIn(statistics_cases("bn")), case_name);

}  // namespace
}  // namespace tr::test
