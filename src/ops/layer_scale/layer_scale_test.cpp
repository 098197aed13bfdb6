#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"
#include "support/session.h"

namespace tr {
namespace {

using test::OpRig;

TEST(LayerScale, ClosedForm) {
  const Catalog catalog = make_catalog();
  for (const Shape& shape : {Shape(1, 1, 1, 1), Shape(1, 1, 1, 7), Shape(2, 41, 33, 12)}) {
    OpRig rig(catalog, {.op = "layer_scale", .x = {shape}});
    rig.run(Pass::FORWARD);
    rig.run_backward();
    const std::span<const float> x = rig.values(Port::X), y = rig.values(Port::Y);
    const std::span<const float> dy = rig.values(Port::DY), dx = rig.values(Port::DX);
    const std::span<const float> scale = rig.values(Port::PARAM);
    const size_t channels = scale.size();
    std::vector<double> sums(channels, 0.0), magnitudes(channels, 0.0);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i] * scale[i % channels]);
      ASSERT_EQ(dx[i], dy[i] * scale[i % channels]);
      sums[i % channels] += double{x[i]} * double{dy[i]};
      magnitudes[i % channels] += std::abs(double{x[i]} * double{dy[i]});
    }
    for (size_t c = 0; c < channels; ++c)
      EXPECT_NEAR(double{rig.values(Port::PARAM_GRAD)[c]}, sums[c], 1e-6 * magnitudes[c] + 1e-12);
  }
}

TEST(LayerScale, TheParameterHasTheLayersNameAndStartsAtInit) {
  Recipe recipe;
  test::Session session(
      seq(named("block", seq(named("layer_scale", layer_scale(0.25)))), gap(), flatten(), named("fc", fc(3))),
      Shape(2, 4, 4, 3), 3, recipe);
  const CompiledModel& model = session.model();
  ASSERT_EQ(model.parameters[0].name, "block.layer_scale");
  EXPECT_EQ(model.parameters[0].spec.door_shape, (std::vector<int64_t>{3, 1, 1}));
  EXPECT_EQ(model.parameters[0].spec.role, ParamRole::BN_WEIGHT);
  EXPECT_EQ(session.read(model.parameters[0].tensors.master), (std::vector<float>(3, 0.25f)));
}

TEST(LayerScale, Refusals) {
  const Catalog catalog = make_catalog();
  EXPECT_EQ(OpRig(catalog, {.op = "layer_scale", .x = {Shape(1, 1, 1, 1)}}).query().attrs.number("init"),
            1e-6);
  test::expect_error(ErrorKind::ValueError, {"layer_scale 'layer': init is", "finite in fp32"}, [&] {
    OpRig rig(catalog, {.op = "layer_scale",
                        .attrs = {{"init", std::numeric_limits<double>::infinity()}},
                        .x = {Shape(1, 1, 1, 1)}});
  });
}

}  // namespace
}  // namespace tr
