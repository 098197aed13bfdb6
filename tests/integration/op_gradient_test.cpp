// Finite differences of every operator's gradients, without a reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/gradient_check.h"

namespace tr::test {
namespace {

Attributes conv_attributes(int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding,
                           int64_t dilation = 1, int64_t groups = 1, bool bias = true,
                           const std::string& activation = "") {
  return {{"out_channels", out_channels}, {"kernel", kernel}, {"stride", stride}, {"padding", padding},
          {"dilation", dilation},         {"groups", groups}, {"bias", bias},     {"activation", activation}};
}

Attributes pool_attributes(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

OpCase make_case(std::string name, std::string op, std::vector<Shape> x, Attributes attrs = {}) {
  return {.op = std::move(op),
          .attrs = std::move(attrs),
          .x = std::move(x),
          .salt = 11,
          .layer = std::move(name)};
}

OpCase without_dx(OpCase c) {
  c.needs_dx.assign(c.x.size(), false);
  return c;
}

OpCase scaled(OpCase c, double x_scale) {
  c.x_scale = x_scale;
  return c;
}

OpCase flattened(OpCase c) {
  c.flatten_x = true;
  return c;
}

OpCase loss(std::string name, const Shape& x, float smoothing, std::vector<int32_t> labels = {},
            float loss_scale = 1.0f) {
  OpCase c = make_case(std::move(name), "softmax_cross_entropy", {x});
  c.x_scale = 4.0;
  c.label_smoothing = smoothing;
  c.loss_scale = loss_scale;
  c.labels = std::move(labels);
  return c;
}

OpCase mixed(OpCase c, float share) {
  c.attrs.set("mix", true);
  c.mix_share = share;
  return c;
}

std::vector<OpCase> cases() {
  const std::string relu = "relu";
  const Shape map(2, 5, 4, 6), square(3, 4, 4, 5);
  return {
      make_case("conv", "conv", {Shape(2, 5, 5, 3)}, conv_attributes(4, 3, 1, 1)),
      make_case("conv_stride2", "conv", {Shape(2, 7, 6, 5)}, conv_attributes(3, 3, 2, 1)),
      make_case("conv_1x1", "conv", {map}, conv_attributes(8, 1, 1, 0, 1, 1, false)),
      make_case("conv_stride_over_kernel", "conv", {Shape(2, 7, 7, 4)}, conv_attributes(3, 2, 3, 0)),
      make_case("conv_dilated", "conv", {Shape(1, 7, 7, 3)}, conv_attributes(4, 3, 1, 2, 2)),
      make_case("conv_groups", "conv", {Shape(2, 4, 4, 6)}, conv_attributes(9, 3, 1, 1, 1, 3)),
      make_case("conv_depthwise", "conv", {Shape(2, 5, 5, 8)}, conv_attributes(8, 3, 2, 1, 1, 8)),
      make_case("conv_depthwise_5x5", "conv", {Shape(2, 6, 5, 4)}, conv_attributes(4, 5, 1, 2, 1, 4)),
      make_case("conv_depthwise_dilated", "conv", {Shape(1, 7, 7, 4)}, conv_attributes(8, 3, 2, 2, 2, 4)),
      make_case("conv_relu", "conv", {Shape(1, 4, 4, 8)}, conv_attributes(8, 3, 1, 1, 1, 1, true, relu)),
      without_dx(make_case("conv_one_channel", "conv", {Shape(2, 6, 6, 1)}, conv_attributes(4, 3, 1, 1))),
      make_case("fc", "fc", {Shape(4, 1, 1, 9)}, {{"out_features", int64_t{5}}}),
      make_case("fc_no_bias", "fc", {Shape(3, 1, 1, 8)}, {{"out_features", int64_t{16}}, {"bias", false}}),
      make_case("fc_relu", "fc", {Shape(4, 1, 1, 12)}, {{"out_features", int64_t{7}}, {"activation", relu}}),
      flattened(make_case("fc_after_map", "fc", {Shape(2, 3, 2, 4)}, {{"out_features", int64_t{6}}})),
      make_case("bn", "bn", {square}),
      make_case("bn_one_channel", "bn", {Shape(3, 3, 3, 1)}),
      make_case("bn_relu", "bn", {map}, {{"activation", relu}}),
      make_case("bn_residual", "bn", {map, map}, {{"residual", true}}),
      make_case("bn_residual_relu", "bn", {map, map}, {{"residual", true}, {"activation", relu}}),
      without_dx(make_case("bn_without_dx", "bn", {square})),
      make_case("bn_frozen", "bn", {map}, {{"frozen", true}}),
      make_case("bn_frozen_residual_relu", "bn", {map, map},
                {{"frozen", true}, {"residual", true}, {"activation", relu}}),
      make_case("relu", "relu", {square}),
      make_case("leaky_relu", "leaky_relu", {square}, {{"negative_slope", 0.2}}),
      make_case("leaky_relu_negative_slope", "leaky_relu", {square}, {{"negative_slope", -0.5}}),
      scaled(make_case("sigmoid", "sigmoid", {square}), 6.0),
      scaled(make_case("tanh", "tanh", {square}), 4.0),
      scaled(make_case("silu", "silu", {square}), 8.0),
      scaled(make_case("hardswish", "hardswish", {square}), 9.0),
      scaled(make_case("hardsigmoid", "hardsigmoid", {square}), 9.0),
      scaled(make_case("relu6", "relu6", {square}), 18.0),
      scaled(make_case("elu", "elu", {square}, {{"alpha", 0.7}}), 4.0),
      scaled(make_case("elu_negative_alpha", "elu", {square}, {{"alpha", -0.7}}), 4.0),
      scaled(make_case("gelu", "gelu", {square}), 6.0),
      scaled(make_case("gelu_tanh", "gelu", {square}, {{"approximate", std::string("tanh")}}), 6.0),
      make_case("layer_norm", "layer_norm", {map}, {{"epsilon", 1e-3}}),
      make_case("layer_norm_vector", "layer_norm", {Shape(5, 1, 1, 9)}),
      without_dx(make_case("layer_norm_without_dx", "layer_norm", {map})),
      make_case("layer_scale", "layer_scale", {square}),
      without_dx(make_case("layer_scale_without_dx", "layer_scale", {square})),
      make_case("stochastic_depth", "stochastic_depth", {Shape(6, 2, 3, 4)}, {{"probability", 0.4}}),
      make_case("add", "add", {square, square}),
      make_case("maxpool", "maxpool", {Shape(2, 6, 6, 3)}, pool_attributes(2, 2, 0)),
      make_case("maxpool_overlapping", "maxpool", {Shape(1, 7, 7, 4)}, pool_attributes(3, 2, 1)),
      make_case("maxpool_gaps", "maxpool", {Shape(1, 8, 8, 3)}, pool_attributes(2, 3, 0)),
      make_case("avgpool", "avgpool", {Shape(2, 6, 6, 3)}, pool_attributes(2, 2, 0)),
      make_case("avgpool_overlapping", "avgpool", {Shape(1, 7, 7, 4)}, pool_attributes(3, 2, 1)),
      make_case("maxpool_ceil", "maxpool", {Shape(1, 6, 5, 3)},
                {{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{0}}, {"ceil", true}}),
      make_case("adaptive_avgpool", "adaptive_avgpool", {Shape(1, 5, 3, 4)}, {{"size", int64_t{2}}}),
      make_case("adaptive_avgpool_larger", "adaptive_avgpool", {Shape(2, 2, 3, 3)}, {{"size", int64_t{4}}}),
      make_case("concat", "concat", {Shape(2, 3, 2, 3), Shape(2, 3, 2, 1), Shape(2, 3, 2, 4)}),
      make_case("channel_scale", "channel_scale", {square, Shape(3, 1, 1, 5)}),
      make_case("gap", "gap", {square}),
      make_case("dropout", "dropout", {square}, {{"probability", 0.4}}),
      loss("loss", Shape(5, 1, 1, 7), 0.0f),
      loss("loss_smoothing", Shape(5, 1, 1, 7), 0.1f),
      loss("loss_padding", Shape(5, 1, 1, 4), 0.1f, {2, -1, 0, 3, -1}),
      loss("loss_scale", Shape(3, 1, 1, 10), 0.1f, {}, 256.0f),
      mixed(loss("loss_mixed", Shape(5, 1, 1, 7), 0.0f), 0.3f),
      mixed(loss("loss_mixed_smoothing", Shape(6, 1, 1, 7), 0.1f), 0.8f),
  };
}

class OpGradient : public testing::TestWithParam<OpCase> {};

TEST_P(OpGradient, AgreesWithFiniteDifferences) { check_gradients(make_catalog(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Table, OpGradient, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.layer; });

TEST(OpGradientTable, CoversEveryOperatorThatHasAGradient) {
  std::set<std::string> covered{"flatten", "identity"};  // views: the compiler gives them no backward node
  for (const OpCase& c : cases()) covered.insert(c.op);
  for (const std::string& name : make_catalog().names())
    EXPECT_TRUE(covered.contains(name)) << name << " has no gradient case";
}

}  // namespace
}  // namespace tr::test
