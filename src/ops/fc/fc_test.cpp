#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::OpCase;
using test::OpRig;

Attributes attributes(int64_t out, bool bias, const std::string& activation = "") {
  return {{"out_features", out}, {"bias", bias}, {"activation", activation}};
}

struct Named {
  std::string name;
  Attributes attrs;
  Shape x;
};
void PrintTo(const Named& c, std::ostream* out) { *out << c.name; }

class FcDefinition : public testing::TestWithParam<Named> {};

void expect_near(std::span<const float> got, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 1.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-6 * scale) << what << ' ' << i;
}

/// y, dx and the parameters' gradients against y = x w^T + b in double.
TEST_P(FcDefinition, AllPasses) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog,
            {.op = "fc", .attrs = GetParam().attrs, .x = {GetParam().x}, .needs_dx = {}, .flatten_x = true});
  const bool bias = rig.query().attrs.flag("bias"), relu = rig.query().attrs.text("activation") == "relu";
  const auto rows = static_cast<size_t>(GetParam().x.n());
  const std::span<float> x = rig.values(Port::X), w = rig.values(Port::PARAM);
  const size_t in = x.size() / rows, out = w.size() / in;
  ASSERT_EQ(rig.query().y, Shape(GetParam().x.n(), 1, 1, static_cast<int64_t>(out)));
  std::vector<double> y(rows * out), dx(x.size()), dw(w.size()), db(out);
  const auto each_product = [&](auto visit) {
    for (size_t n = 0; n < rows; ++n)
      for (size_t k = 0; k < out; ++k)
        for (size_t c = 0; c < in; ++c) visit(n * in + c, k * in + c, n * out + k);
  };
  if (bias)
    for (size_t i = 0; i < y.size(); ++i) y[i] = rig.values(Port::PARAM, 1)[i % out];
  each_product([&](size_t xi, size_t wi, size_t yi) { y[yi] += double{x[xi]} * w[wi]; });
  for (double& value : y)
    if (relu) value = std::max(value, 0.0);
  rig.run(Pass::FORWARD);
  expect_near(rig.values(Port::Y), y, "y");
  rig.run(Pass::INFERENCE);
  expect_near(rig.values(Port::Y), y, "y of inference");

  std::vector<double> dy(rig.values(Port::DY).begin(), rig.values(Port::DY).end());
  for (size_t i = 0; i < dy.size(); ++i) {
    if (relu && rig.values(Port::Y)[i] <= 0.0f) dy[i] = 0.0;
    db[i % out] += dy[i];
  }
  each_product([&](size_t xi, size_t wi, size_t yi) {
    dx[xi] += dy[yi] * w[wi];
    dw[wi] += dy[yi] * x[xi];
  });
  rig.run_backward();
  expect_near(rig.values(Port::PARAM_GRAD, 0), dw, "dw");
  if (bias) expect_near(rig.values(Port::PARAM_GRAD, 1), db, "db");
  expect_near(rig.values(Port::DX), dx, "dx");
}

const std::vector<Named> CASES{
    {"hidden", attributes(32, true), Shape(20, 1, 1, 48)},
    {"odd", attributes(7, true), Shape(5, 1, 1, 13)},
    {"classes", attributes(10, true), Shape(20, 1, 1, 256)},
    {"no_bias", attributes(16, false), Shape(3, 1, 1, 24)},
    {"feature_map", attributes(10, true), Shape(3, 4, 5, 3)},
    {"feature_map_of_blocks", attributes(24, true), Shape(6, 3, 3, 16)},
    {"one_row", attributes(8, true), Shape(1, 1, 1, 16)},
    {"one_feature", attributes(3, true), Shape(4, 1, 1, 1)},
    {"one_output", attributes(1, true), Shape(4, 1, 1, 24)},
    {"one_of_all", attributes(1, false), Shape(1, 1, 1, 1)},
    {"relu", attributes(24, true, "relu"), Shape(9, 1, 1, 40)},
    {"relu_odd", attributes(5, false, "relu"), Shape(6, 2, 1, 3)},
};
INSTANTIATE_TEST_SUITE_P(Shapes, FcDefinition, testing::ValuesIn(CASES),
                         [](const auto& instance) { return instance.param.name; });

TEST(Fc, ReluKeepsNaN) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog,
            {.op = "fc", .attrs = attributes(8, true, "relu"), .x = {Shape(2, 1, 1, 8)}, .needs_dx = {}});
  rig.values(Port::X)[0] = std::numeric_limits<float>::quiet_NaN();
  rig.run(Pass::FORWARD, test::Expect::ANY);
  EXPECT_TRUE(std::isnan(rig.values(Port::Y)[0]));
  EXPECT_FALSE(std::isnan(rig.values(Port::Y)[8]));
}

TEST(Fc, Parameters) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "fc",
                      .attrs = attributes(10, true),
                      .x = {Shape(3, 4, 5, 6)},
                      .needs_dx = {false},
                      .flatten_x = true});
  const ParamSpec& weight = rig.params()[0];
  EXPECT_EQ(weight.role, ParamRole::FC_WEIGHT);
  EXPECT_EQ(weight.shape, Shape(10, 1, 1, 120));
  EXPECT_EQ(weight.fan_in, 120);
  EXPECT_EQ(weight.fan_out, 10);
  EXPECT_EQ(weight.door_shape, (std::vector<int64_t>{10, 120}));
  EXPECT_EQ(weight.flattened_hwc, (std::array<int64_t, 3>{4, 5, 6}));
  EXPECT_EQ(rig.params()[1].role, ParamRole::FC_BIAS);
  EXPECT_EQ(rig.params()[1].fan_in, 120);
  EXPECT_EQ(rig.spec().backward_passes(rig.query()), std::vector{Pass::BACKWARD_WEIGHT});
  EXPECT_EQ(rig.spec().flops(rig.query(), Pass::BACKWARD_WEIGHT), 2 * 3 * 120 * 10);
}

TEST(Fc, AbsorbsOneRelu) {
  const Catalog catalog = make_catalog();
  const OpSpec& fc = *catalog.find("fc").spec;
  const std::optional<Attributes> fused = fc.absorb(attributes(8, true), "relu", {}, 0);
  ASSERT_TRUE(fused.has_value());
  EXPECT_EQ(fused->text("activation"), "relu");
  EXPECT_FALSE(fc.absorb(*fused, "relu", {}, 0).has_value());
}

/// On CUDA: a copy of x without its padding, the FP32 product; a copy of dy to mask and of dx without
/// padding.
TEST(Fc, PlansCudaWorkspace) {
  const Catalog catalog = make_catalog();
  const CatalogEntry& fc = catalog.find("fc");
  OpQuery query;
  query.attrs = attributes(10, true, "relu");
  query.x = {Shape(4, 7, 9, 3)};
  query.y = Shape(4, 1, 1, 10);
  query.target.backend = BackendKind::CUDA;
  query.needs_dx = {true};
  const auto beside_library = [&](Pass pass) {
    return catalog.offer(fc, query, pass).workspace_bytes - query.target.workspace_cap_bytes;
  };
  EXPECT_EQ(fc.spec->backward_passes(query), std::vector{Pass::BACKWARD});
  EXPECT_EQ(beside_library(Pass::FORWARD), 0);
  EXPECT_EQ(beside_library(Pass::BACKWARD), 256);
  query.dtype = DType::FP16;
  EXPECT_EQ(beside_library(Pass::FORWARD), round_up(4 * 7 * 9 * 3 * 2, 256) + 256);
  EXPECT_EQ(beside_library(Pass::BACKWARD), 2 * round_up(4 * 7 * 9 * 3 * 2, 256) + 256);
  query.x = {Shape(4, 7, 9, 4)};
  query.reads_network_input = true;
  EXPECT_EQ(beside_library(Pass::FORWARD), 256);
  query.needs_dx = {false};
  query.attrs.set("activation", std::string());
  EXPECT_EQ(beside_library(Pass::BACKWARD), 0);
}

TEST(Fc, Refusals) {
  const Catalog catalog = make_catalog();
  const auto refused = [&](const Attributes& attrs, const Shape& x, ErrorKind kind, const std::string& text) {
    test::expect_error(kind, {text},
                       [&] { OpRig rig(catalog, {.op = "fc", .attrs = attrs, .x = {x}, .needs_dx = {}}); });
  };
  refused(
      attributes(10, true), Shape(2, 4, 3, 8), ErrorKind::ShapeError,
      "fc 'layer': input [2,4,3,8] is a feature map of 4x3, expected [N,1,1,features]; put flatten() before "
      "it");
  refused(attributes(0, true), Shape(2, 1, 1, 8), ErrorKind::ValueError,
          "fc 'layer': out_features is 0; it must be at least 1");
  refused(attributes(4, true, "tanh"), Shape(2, 1, 1, 8), ErrorKind::ValueError,
          "activation 'tanh' is not known; use '' or 'relu'");
}

}  // namespace
}  // namespace tr
