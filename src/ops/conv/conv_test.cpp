#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpCase;
using test::OpRig;

const int64_t ONE = 1;

Attributes attributes(int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                      int64_t groups, bool bias, const std::string& activation = "") {
  return {{"out_channels", out},  {"kernel", kernel}, {"stride", stride}, {"padding", padding},
          {"dilation", dilation}, {"groups", groups}, {"bias", bias},     {"activation", activation}};
}

/// The definition, in double: visits every product once as (x index, weight index, y index).
template <typename Visit>
void each_product(const OpQuery& query, Visit visit) {
  const Attributes& a = query.attrs;
  const int64_t kernel = a.integer("kernel"), stride = a.integer("stride"), padding = a.integer("padding");
  const int64_t dilation = a.integer("dilation"), groups = a.integer("groups");
  const Shape &x = query.x[0], &y = query.y;
  const int64_t in = x.c() / groups, out = y.c() / groups;
  for (int64_t n = 0; n < y.n(); ++n)
    for (int64_t p = 0; p < y.h(); ++p)
      for (int64_t q = 0; q < y.w(); ++q)
        for (int64_t k = 0; k < y.c(); ++k)
          for (int64_t r = 0; r < kernel; ++r)
            for (int64_t s = 0; s < kernel; ++s) {
              const int64_t h = p * stride - padding + r * dilation, w = q * stride - padding + s * dilation;
              if (h < 0 || h >= x.h() || w < 0 || w >= x.w()) continue;
              for (int64_t c = 0; c < in; ++c)
                visit(((n * x.h() + h) * x.w() + w) * x.c() + k / out * in + c,
                      ((k * kernel + r) * kernel + s) * in + c, ((n * y.h() + p) * y.w() + q) * y.c() + k);
            }
}

void expect_near(std::span<const float> got, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 1.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-6 * scale) << what << ' ' << i;
}

/// y, dx and the parameters' gradients against the definition.
void expect_matches_definition(OpCase c) {
  const Catalog catalog = make_catalog();
  c.op = "conv";
  OpRig rig(catalog, c);
  const OpQuery& query = rig.query();
  const bool bias = query.attrs.flag("bias"), relu = query.attrs.text("activation") == "relu";
  const std::span<float> x = rig.values(Port::X), w = rig.values(Port::PARAM);
  std::vector<double> y(static_cast<size_t>(query.y.numel()));
  if (bias)
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = rig.values(Port::PARAM, 1)[i % static_cast<size_t>(query.y.c())];
  each_product(query, [&](int64_t xi, int64_t wi, int64_t yi) {
    y[static_cast<size_t>(yi)] += double{x[static_cast<size_t>(xi)]} * w[static_cast<size_t>(wi)];
  });
  for (double& value : y)
    if (relu) value = std::max(value, 0.0);
  rig.run(Pass::FORWARD);
  expect_near(rig.values(Port::Y), y, "y");
  rig.run(Pass::INFERENCE);
  expect_near(rig.values(Port::Y), y, "y of inference");

  const std::span<float> dy_given = rig.values(Port::DY);
  std::vector<double> dy(dy_given.begin(), dy_given.end());
  for (size_t i = 0; i < dy.size(); ++i)
    if (relu && rig.values(Port::Y)[i] <= 0.0f) dy[i] = 0.0;
  std::vector<double> dx(x.size()), dw(w.size()), db(static_cast<size_t>(query.y.c()));
  for (size_t i = 0; i < dy.size(); ++i) db[i % db.size()] += dy[i];
  each_product(query, [&](int64_t xi, int64_t wi, int64_t yi) {
    dx[static_cast<size_t>(xi)] += dy[static_cast<size_t>(yi)] * w[static_cast<size_t>(wi)];
    dw[static_cast<size_t>(wi)] += dy[static_cast<size_t>(yi)] * x[static_cast<size_t>(xi)];
  });
  rig.run_backward();
  expect_near(rig.values(Port::PARAM_GRAD, 0), dw, "dw");
  if (bias) expect_near(rig.values(Port::PARAM_GRAD, 1), db, "db");
  if (rig.has(Port::DX)) expect_near(rig.values(Port::DX), dx, "dx");
}

struct Named {
  std::string name;
  Attributes attrs;
  Shape x;
};
void PrintTo(const Named& c, std::ostream* out) { *out << c.name; }

class ConvDefinition : public testing::TestWithParam<Named> {};

TEST_P(ConvDefinition, AllPasses) {
  expect_matches_definition({.op = "conv", .attrs = GetParam().attrs, .x = {GetParam().x}, .needs_dx = {}});
}

//                                              out k  s  p  d  g  bias
const std::vector<Named> CASES{
    {"first_layer", attributes(16, 3, 1, 1, 1, 1, false), Shape(3, 9, 9, 1)},
    {"rgb_bias", attributes(8, 3, 2, 1, 1, 1, true), Shape(2, 11, 8, 3)},
    {"five_channels", attributes(7, 3, 1, 0, 1, 1, true), Shape(2, 6, 7, 5)},
    {"blocks_of_eight", attributes(32, 3, 1, 1, 1, 1, false), Shape(3, 14, 14, 16)},
    {"not_a_block", attributes(20, 3, 1, 1, 1, 1, true), Shape(2, 9, 10, 12)},
    {"wide", attributes(64, 3, 1, 1, 1, 1, false), Shape(2, 28, 28, 32)},
    {"stride_two", attributes(32, 3, 2, 1, 1, 1, false), Shape(3, 13, 13, 16)},
    {"seven_by_seven", attributes(16, 7, 2, 3, 1, 1, false), Shape(2, 17, 17, 3)},
    {"pointwise", attributes(24, 1, 1, 0, 1, 1, false), Shape(3, 5, 5, 16)},
    {"pointwise_stride", attributes(32, 1, 2, 0, 1, 1, false), Shape(2, 8, 8, 16)},
    {"pointwise_stride_few", attributes(8, 1, 2, 0, 1, 1, false), Shape(2, 8, 8, 4)},
    {"pointwise_stride_odd", attributes(5, 1, 3, 0, 1, 1, true), Shape(2, 8, 7, 3)},
    {"pointwise_stride_eight", attributes(24, 1, 2, 0, 1, 1, true), Shape(3, 7, 9, 8)},
    {"stride_over_kernel", attributes(6, 2, 3, 0, 1, 1, true), Shape(2, 8, 10, 4)},
    {"one_pixel", attributes(8, 1, 1, 0, 1, 1, true), Shape(4, 1, 1, 16)},
    {"one_pixel_padded", attributes(8, 3, 1, 1, 1, 1, true), Shape(4, 1, 1, 8)},
    {"one_channel_out", attributes(1, 3, 1, 1, 1, 1, true), Shape(2, 5, 5, 1)},
    {"groups", attributes(12, 3, 1, 1, 1, 3, true), Shape(2, 7, 7, 9)},
    {"groups_of_eight", attributes(32, 3, 1, 1, 1, 4, false), Shape(2, 7, 7, 32)},
    {"depthwise", attributes(16, 3, 1, 1, 1, 16, false), Shape(2, 9, 9, 16)},
    {"depthwise_stride", attributes(5, 3, 2, 1, 1, 5, true), Shape(2, 9, 8, 5)},
    {"depthwise_multiplier", attributes(12, 3, 1, 1, 1, 6, true), Shape(2, 6, 6, 6)},
    {"dilation", attributes(8, 3, 1, 2, 2, 1, false), Shape(2, 9, 9, 8)},
    {"dilation_stride", attributes(8, 3, 2, 3, 3, 1, true), Shape(2, 11, 11, 4)},
    {"padding_over_kernel", attributes(8, 1, 1, 2, 1, 1, true), Shape(2, 3, 3, 8)},
    {"even_kernel", attributes(8, 2, 1, 1, 1, 1, true), Shape(3, 9, 9, 8)},
    {"five_by_five", attributes(16, 5, 1, 2, 1, 1, true), Shape(2, 9, 7, 16)},
    {"padding_over_map", attributes(8, 3, 1, 4, 1, 1, false), Shape(2, 2, 3, 16)},
    {"many_rows", attributes(8, 3, 2, 1, 1, 1, true), Shape(2, 61, 61, 8)},
    {"very_wide", attributes(8, 3, 1, 1, 1, 1, true), Shape(1, 3, 450, 8)},
    {"many_images", attributes(16, 3, 1, 1, 1, 1, true), Shape(23, 5, 5, 16)},
    {"batch_of_one", attributes(16, 3, 1, 1, 1, 1, false), Shape(1, 12, 12, 16)},
    {"relu", attributes(16, 3, 1, 1, 1, 1, true, "relu"), Shape(2, 8, 8, 8)},
    {"relu_no_bias", attributes(6, 3, 2, 1, 1, 1, false, "relu"), Shape(2, 8, 8, 5)},
};
INSTANTIATE_TEST_SUITE_P(Shapes, ConvDefinition, testing::ValuesIn(CASES),
                         [](const auto& instance) { return instance.param.name; });

TEST(Conv, ClosedForm) {
  // A 3x3 kernel of ones over a 3x3 map of ones counts the pixels under the window.
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "conv",
                      .attrs = {{"out_channels", ONE}, {"kernel", int64_t{3}}, {"padding", ONE}},
                      .x = {Shape(1, 3, 3, 1)},
                      .needs_dx = {}});
  std::ranges::fill(rig.values(Port::X), 1.0f);
  std::ranges::fill(rig.values(Port::PARAM, 0), 1.0f);
  std::ranges::fill(rig.values(Port::PARAM, 1), 0.5f);
  rig.run(Pass::FORWARD);
  const std::vector<float> expected{4.5f, 6.5f, 4.5f, 6.5f, 9.5f, 6.5f, 4.5f, 6.5f, 4.5f};
  EXPECT_TRUE(std::ranges::equal(rig.values(Port::Y), expected));
}

TEST(Conv, IsNotFlipped) {
  const Catalog catalog = make_catalog();
  OpRig rig(
      catalog,
      {.op = "conv", .attrs = attributes(1, 2, 1, 0, 1, 1, false), .x = {Shape(1, 2, 2, 1)}, .needs_dx = {}});
  std::ranges::copy(std::vector{1.0f, 2.0f, 3.0f, 4.0f}, rig.values(Port::X).begin());
  std::ranges::copy(std::vector{1.0f, 10.0f, 100.0f, 1000.0f}, rig.values(Port::PARAM).begin());
  rig.run(Pass::FORWARD);
  EXPECT_EQ(rig.values(Port::Y)[0], 4321.0f);
}

TEST(Conv, ReluKeepsNaN) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "conv",
                      .attrs = attributes(8, 1, 1, 0, 1, 1, false, "relu"),
                      .x = {Shape(1, 2, 2, 8)},
                      .needs_dx = {}});
  rig.values(Port::X)[0] = std::numeric_limits<float>::quiet_NaN();
  rig.run(Pass::FORWARD, test::Expect::ANY);
  EXPECT_TRUE(std::isnan(rig.values(Port::Y)[0]));
  EXPECT_FALSE(std::isnan(rig.values(Port::Y)[8]));
}

TEST(Conv, NoGradientOfTheNetworkInput) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "conv",
                      .attrs = attributes(8, 3, 1, 1, 1, 1, true),
                      .x = {Shape(2, 6, 6, 3)},
                      .reads_network_input = true,
                      .needs_dx = {false}});
  EXPECT_EQ(rig.spec().backward_passes(rig.query()), std::vector{Pass::BACKWARD_WEIGHT});
  EXPECT_EQ(rig.params()[0].role, ParamRole::FIRST_CONV);
  EXPECT_EQ(rig.params()[1].role, ParamRole::FC_BIAS);
  rig.run_backward();
}

TEST(Conv, Parameters) {
  const Catalog catalog = make_catalog();
  OpRig rig(
      catalog,
      {.op = "conv", .attrs = attributes(12, 3, 1, 1, 1, 3, true), .x = {Shape(2, 7, 7, 6)}, .needs_dx = {}});
  const ParamSpec& weight = rig.params()[0];
  EXPECT_EQ(weight.name, "weight");
  EXPECT_EQ(weight.role, ParamRole::DEEP_CONV);
  EXPECT_EQ(weight.shape, Shape(12, 3, 3, 2));
  EXPECT_EQ(weight.fan_in, 18);
  EXPECT_EQ(weight.fan_out, 36);
  EXPECT_EQ(weight.door_shape, (std::vector<int64_t>{12, 2, 3, 3}));
  EXPECT_EQ(rig.params()[1].shape, Shape(1, 1, 1, 12));
  EXPECT_EQ(rig.params()[1].fan_in, 18);
  EXPECT_EQ(rig.spec().flops(rig.query(), Pass::FORWARD), 2 * 2 * 7 * 7 * 12 * 9 * 2);
}

TEST(Conv, AbsorbsOneRelu) {
  const Catalog catalog = make_catalog();
  const OpSpec& conv = *catalog.find("conv").spec;
  const Attributes plain = attributes(8, 3, 1, 1, 1, 1, true);
  const std::optional<Attributes> fused = conv.absorb(plain, "relu", {}, 0);
  ASSERT_TRUE(fused.has_value());
  EXPECT_EQ(fused->text("activation"), "relu");
  EXPECT_FALSE(conv.absorb(*fused, "relu", {}, 0).has_value());
  EXPECT_FALSE(conv.absorb(plain, "bn", {}, 0).has_value());
}

TEST(Conv, PlansSixteenBits) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "conv",
                      .attrs = attributes(10, 3, 1, 1, 1, 1, false),
                      .x = {Shape(2, 8, 8, 8)},
                      .needs_dx = {}});
  OpQuery query = rig.query();
  query.dtype = DType::BF16;
  for (const Pass pass : {Pass::FORWARD, Pass::BACKWARD_WEIGHT, Pass::BACKWARD_DATA}) {
    const Offer offer = catalog.offer(catalog.find("conv"), query, pass);
    EXPECT_TRUE(offer.supported()) << offer.declined;
  }
  query.target.backend = BackendKind::CUDA;
  const Offer cuda = catalog.offer(catalog.find("conv"), query, Pass::FORWARD);
  EXPECT_TRUE(cuda.supported());
  EXPECT_GE(cuda.workspace_bytes, query.target.workspace_cap_bytes) << "the library's, and copies beside it";
}

void expect_refused(const Attributes& attrs, const Shape& x, ErrorKind kind, const std::string& text) {
  const Catalog catalog = make_catalog();
  test::expect_error(kind, {text},
                     [&] { OpRig rig(catalog, {.op = "conv", .attrs = attrs, .x = {x}, .needs_dx = {}}); });
}

TEST(Conv, Refusals) {
  const Shape x(2, 8, 8, 128);
  expect_refused(attributes(6, 3, 1, 0, 1, 3, true), x, ErrorKind::ShapeError,
                 "conv 'layer': input has 128 channels, groups 3 does not divide it; change groups or the "
                 "input's channels");
  expect_refused(attributes(6, 3, 1, 0, 1, 4, true), x, ErrorKind::ValueError,
                 "conv 'layer': out_channels is 6, groups 4 does not divide it");
  expect_refused(
      attributes(6, 9, 1, 0, 1, 1, true), x, ErrorKind::ShapeError,
      "conv 'layer': kernel 9 with dilation 1 spans 9 but input [2,8,8,128] with padding 0 is 8x8");
  expect_refused(attributes(6, 3, 1, 1, 5, 1, true), x, ErrorKind::ShapeError,
                 "kernel 3 with dilation 5 spans 11");
  expect_refused(attributes(6, 0, 1, 0, 1, 1, true), x, ErrorKind::ValueError,
                 "conv 'layer': kernel is 0; it must be at least 1");
  expect_refused(attributes(6, 3, 0, 0, 1, 1, true), x, ErrorKind::ValueError, "stride is 0");
  expect_refused(attributes(6, 3, 1, -1, 1, 1, true), x, ErrorKind::ValueError, "padding is -1");
  expect_refused(attributes(6, 3, 1, 0, 0, 1, true), x, ErrorKind::ValueError, "dilation is 0");
  expect_refused(attributes(6, 3, 1, 0, 1, 0, true), x, ErrorKind::ValueError, "groups is 0");
  expect_refused(attributes(0, 3, 1, 0, 1, 1, true), x, ErrorKind::ValueError, "out_channels is 0");
  expect_refused(attributes(6, 3, 1, 0, 1, 1, true, "gelu"), x, ErrorKind::ValueError,
                 "activation 'gelu' is not known; use '' or 'relu'");
}

TEST(Conv, ALinearOneIsSavedAsPyTorchsLinear) {
  const Catalog catalog = make_catalog();
  const auto case_of = [](int64_t kernel, int64_t groups) {
    return test::OpCase{
        .op = "conv",
        .attrs = {{"out_channels", int64_t{6}}, {"kernel", kernel}, {"groups", groups}, {"linear", true}},
        .x = {Shape(2, 3, 3, 4)}};
  };
  OpRig rig(catalog, case_of(1, 1));
  EXPECT_EQ(rig.params()[0].shape, Shape(6, 1, 1, 4));
  EXPECT_EQ(rig.params()[0].door_shape, (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(rig.params()[0].flattened_hwc, (std::array<int64_t, 3>{1, 1, 4}));
  for (const auto& [kernel, groups] : {std::pair(3, 1), std::pair(1, 2)})
    test::expect_error(ErrorKind::ValueError,
                       {"conv 'layer': linear is given with kernel", "kernel 1 and groups 1"},
                       [&] { OpRig refused(catalog, case_of(kernel, groups)); });
}

}  // namespace
}  // namespace tr
