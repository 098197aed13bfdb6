#include "renaissance/graph/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "renaissance/models.h"
#include "support/expect_error.h"

namespace tr {
namespace {

using test::refuses;

std::array<Shape, NUM_VARIANTS> same_inputs(const Shape& shape) {
  return {shape, shape, shape, shape, shape, shape};
}

CompileRequest small_request(BluePrint model, const Shape& input, int64_t classes = 5) {
  CompileRequest request;
  request.model = std::move(model);
  request.inputs = same_inputs(input);
  request.classes = classes;
  return request;
}

std::shared_ptr<const Catalog> catalog() { return std::make_shared<const Catalog>(make_catalog()); }

BluePrint small_residual_net() {
  return seq(
      named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(),
      named("block", residual(seq(named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()),
                                  named("relu1", relu()), named("conv2", conv(8, 3, 1, 1, {.bias = false})),
                                  named("bn2", bn())))),
      named("relu2", relu()), gap(), flatten(), named("fc", fc(5)));
}

CompileRequest imagenet(std::string_view name, BackendKind backend, Precision precision,
                        int64_t batch = 256) {
  CompileRequest request;
  request.model = make_model(name, 1000);
  const Shape base(batch, 224, 224, 3), low(batch, 160, 160, 3);
  request.inputs = {base, Shape(143, 224, 224, 3), low, Shape(143, 160, 160, 3),
                    base, Shape(80, 224, 224, 3)};
  request.classes = 1000;
  request.config.precision = precision;
  request.config.optimizer = OptimizerKind::NESTEROV;
  request.target = default_target(backend);
  request.plan_only = true;
  return request;
}

std::vector<std::string> node_names(const CompiledModel& model, GraphId part) {
  std::vector<std::string> names;
  for (const GraphNode& node : model.graph.part(part)) names.push_back(node.name);
  return names;
}

TEST(Compiler, SixVariantsShareIdsAndOffsetsAndKeepTheirOwnShapes) {
  CompileRequest request = small_request(small_residual_net(), Shape(8, 16, 16, 3));
  request.inputs = {Shape(8, 16, 16, 3), Shape(3, 16, 16, 3),  Shape(8, 12, 12, 3),
                    Shape(3, 12, 12, 3), Shape(10, 16, 16, 3), Shape(7, 16, 16, 3)};
  const CompiledModel model = compile(request, catalog());
  ASSERT_EQ(model.plans.size(), 6u);
  for (size_t v = 0; v < 6; ++v) {
    const MemoryPlan& plan = model.plans[v];
    EXPECT_EQ(plan.phase(), MemoryPlan::Phase::COMPILED);
    ASSERT_EQ(plan.num_tensors(), model.plans[0].num_tensors());
    EXPECT_EQ(plan.tensor(INPUT_A_DATA).shape, request.inputs[v]);
    for (TensorId id = 0; id < plan.num_tensors(); ++id) {
      EXPECT_EQ(plan.tensor(id).offset, model.plans[0].tensor(id).offset);
      EXPECT_EQ(plan.tensor(id).region, model.plans[0].tensor(id).region);
    }
  }
  // val_base has the largest batch: its slots are the plan's.
  EXPECT_EQ(model.plans[0].tensor(INPUT_A_DATA).slot_bytes,
            slot_bytes(Shape(10, 16, 16, 3), DType::FP32, Region::I_A_DATA, BackendKind::CPU));
}

TEST(Compiler, ResNet50At224And160ReallyDiffers) {
  const CompiledModel model = compile(imagenet("resnet50", BackendKind::CUDA, Precision::FP16), catalog());
  const auto value = [&](Variant variant, std::string_view name) {
    const auto found = std::find(model.tensor_names.begin(), model.tensor_names.end(), name);
    EXPECT_NE(found, model.tensor_names.end()) << name;
    return model.plan(variant).tensor(static_cast<TensorId>(found - model.tensor_names.begin())).shape;
  };
  EXPECT_EQ(value(Variant::TRAIN_BASE, "conv1.out"), Shape(256, 112, 112, 64));
  EXPECT_EQ(value(Variant::TRAIN_LOWRES, "conv1.out"), Shape(256, 80, 80, 64));
  EXPECT_EQ(value(Variant::TRAIN_LOWRES_LAST, "layer4.2.conv3.out"), Shape(143, 5, 5, 2048));
  EXPECT_EQ(value(Variant::VAL_LAST, "layer4.2.conv3.out"), Shape(80, 7, 7, 2048));
  EXPECT_EQ(model.num_parameters(), 25557032);  // torchvision's resnet50
}

TEST(Compiler, PlansEveryPrecisionForBothTargetsHere) {
  for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
    for (const Precision precision : {Precision::FP32, Precision::FP16, Precision::BF16}) {
      const CompiledModel model = compile(imagenet("resnet18", backend, precision, 4), catalog());
      EXPECT_GT(model.plan(Variant::TRAIN_BASE).total_bytes(), 0);
      EXPECT_EQ(model.plan(Variant::TRAIN_BASE).is_region_populated(Region::A_DEEP_CONV), is_amp(precision));
    }
}

TEST(Compiler, IsAPureFunction) {
  const CompiledModel a = compile(imagenet("resnet18", BackendKind::CUDA, Precision::BF16), catalog());
  const CompiledModel b = compile(imagenet("resnet18", BackendKind::CUDA, Precision::BF16), catalog());
  ASSERT_EQ(a.plans[0].num_tensors(), b.plans[0].num_tensors());
  for (TensorId id = 0; id < a.plans[0].num_tensors(); ++id)
    EXPECT_EQ(a.plans[0].tensor(id).offset, b.plans[0].tensor(id).offset);
}

TEST(Compiler, EveryZooModelPlansForBothTargets) {
  for (const std::string& name : model_names()) {
    const bool small = name == "mlp" || name == "cnn" || name == "resnet20";
    CompileRequest request =
        small_request(make_model(name, 10), small ? Shape(2, 28, 28, 1) : Shape(2, 224, 224, 3), 10);
    request.plan_only = true;
    for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA}) {
      request.target = default_target(backend);
      EXPECT_GT(compile(request, catalog()).plans[0].total_bytes(), 0) << name;
    }
  }
}

TEST(Compiler, FusesBatchNormAdditionAndReluWithoutChangingNames) {
  const CompiledModel fused = compile(small_request(small_residual_net(), Shape(2, 8, 8, 3)), catalog());
  CompileRequest apart_request = small_request(small_residual_net(), Shape(2, 8, 8, 3));
  apart_request.target.fuse = false;
  const CompiledModel apart = compile(apart_request, catalog());
  EXPECT_LT(fused.arch.layers.size(), apart.arch.layers.size());
  const auto names = [](const CompiledModel& model) {
    std::set<std::string> set;
    for (const Parameter& parameter : model.parameters) set.insert(parameter.name);
    return set;
  };
  EXPECT_EQ(names(fused), names(apart));
  EXPECT_TRUE(names(fused).contains("block.bn2.weight"));
  const auto bn2 = std::find_if(fused.arch.layers.begin(), fused.arch.layers.end(),
                                [](const Layer& layer) { return layer.name == "block.bn2"; });
  ASSERT_NE(bn2, fused.arch.layers.end());
  EXPECT_TRUE(bn2->attrs.flag("residual"));
  EXPECT_EQ(bn2->attrs.text("activation"), "relu");
  EXPECT_EQ(bn2->inputs.size(), 2u);
}

TEST(Compiler, FirstConvolutionHasItsOwnRegion) {
  const CompiledModel model = compile(small_request(small_residual_net(), Shape(2, 8, 8, 3)), catalog());
  EXPECT_EQ(model.plans[0].region_info(Region::W_FIRST_CONV).tensors, 1);
  EXPECT_EQ(model.plans[0].region_info(Region::W_DEEP_CONV).tensors, 2);
}

TEST(Compiler, GradientsOfASharedValueAreSummedOnce) {
  const CompiledModel model = compile(small_request(small_residual_net(), Shape(2, 8, 8, 3)), catalog());
  const std::vector<std::string> names = node_names(model, GraphId::BACKWARD);
  EXPECT_EQ(std::count(names.begin(), names.end(), "bn1.grad_sum forward"), 1);
  // Every gradient that is read was written before.
  std::set<TensorId> written;
  for (const GraphId part : {GraphId::FORWARD, GraphId::BACKWARD})
    for (const GraphNode& node : model.graph.part(part)) {
      for (const NodeOperand& operand : node.operands) {
        const Region region = model.plans[0].tensor(operand.id).region;
        if (operand.read && region_traits(region).transient && operand.id != LABEL) {
          EXPECT_TRUE(written.contains(operand.id))
              << node.name << " reads " << model.tensor_names[static_cast<size_t>(operand.id)];
        }
      }
      for (const NodeOperand& operand : node.operands)
        if (operand.write) written.insert(operand.id);
    }
}

TEST(Compiler, TheNetworkInputGetsNoGradient) {
  const CompiledModel model = compile(small_request(small_residual_net(), Shape(2, 8, 8, 3)), catalog());
  const std::vector<std::string> names = node_names(model, GraphId::BACKWARD);
  EXPECT_EQ(std::count(names.begin(), names.end(), "conv1 backward_data"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "conv1 backward_weight"), 1);
}

TEST(Compiler, RangeNodesFollowTheConfiguration) {
  CompileRequest request = small_request(small_residual_net(), Shape(2, 8, 8, 3));
  request.config.optimizer = OptimizerKind::ADAMW;
  const CompiledModel one = compile(request, catalog());
  EXPECT_EQ(node_names(one, GraphId::OPTIMIZER),
            (std::vector<std::string>{"RANGE_UPDATE_BIAS_ADAM", "RANGE_UPDATE_WEIGHT_ADAMW"}));
  EXPECT_TRUE(one.graph.part(GraphId::EXCHANGE).empty());
  request.target.ranks = 8;
  request.decay_norm_and_bias = true;
  const CompiledModel eight = compile(request, catalog());
  EXPECT_EQ(node_names(eight, GraphId::OPTIMIZER),
            (std::vector<std::string>{"RANGE_UPDATE_WEIGHT_ADAMW", "RANGE_UPDATE_WEIGHT_ADAMW"}));
  EXPECT_EQ(eight.graph.part(GraphId::EXCHANGE).size(), 2u);
  EXPECT_EQ(eight.plans[0].total_bytes(), one.plans[0].total_bytes());
}

TEST(Compiler, CapturesAreSharedWhereInputShapesCoincide) {
  const Shape base(8, 16, 16, 3), last(3, 16, 16, 3);
  const GraphAtlas atlas({base, last, base, last, base, last});
  // Training and validation never share: their programs differ.
  EXPECT_EQ(atlas.captures().size(), 8u);
  EXPECT_EQ(atlas.find(Variant::TRAIN_LOWRES, InputBuffer::B),
            atlas.find(Variant::TRAIN_BASE, InputBuffer::B));
  EXPECT_NE(atlas.find(Variant::VAL_BASE, InputBuffer::A), atlas.find(Variant::TRAIN_BASE, InputBuffer::A));
  EXPECT_NE(atlas.find(Variant::TRAIN_BASE, InputBuffer::A), atlas.find(Variant::TRAIN_BASE, InputBuffer::B));
}

TEST(Compiler, RefusalsNameTheLayerAndTheReason) {
  const auto refuse = [](ErrorKind kind, const std::string& text, BluePrint model,
                         const Shape& input = Shape(2, 8, 8, 3)) {
    refuses(kind, text, [&] { compile(small_request(std::move(model), input), catalog()); });
  };
  refuse(ErrorKind::RecipeError, "'0': unknown operator 'convv'; did you mean 'conv'?", seq(op("convv")));
  refuse(ErrorKind::RecipeError, "kernle",
         seq(op("conv", {{"out_channels", int64_t{4}}, {"kernle", int64_t{3}}})));
  refuse(ErrorKind::RecipeError, "needs out_channels", seq(op("conv", {{"kernel", int64_t{3}}})));
  refuse(ErrorKind::RecipeError, "two layers have this name", seq(named("a", relu()), named("a", relu())));
  refuse(ErrorKind::RecipeError, "no layer between", seq(flatten()));
  refuse(ErrorKind::ShapeError, "flatten()", seq(named("head", fc(5))));
  refuse(ErrorKind::ShapeError, "5 classes need [2,1,1,5]", seq(gap(), flatten(), fc(4)));
  refuse(ErrorKind::ShapeError, "add 'block.add'",
         seq(named("block", residual(seq(conv(8, 3, 1, 1)))), gap(), flatten(), fc(5)));
  refuse(ErrorKind::NotSupportedError, "bn '2' forward: ", seq(gap(), flatten(), bn(), fc(5)),
         Shape(1, 8, 8, 3));
}

TEST(Compiler, RefusesWeightsThatFollowTheResolution) {
  CompileRequest request = small_request(seq(flatten(), named("head", fc(5))), Shape(2, 8, 8, 3));
  request.inputs[static_cast<size_t>(Variant::TRAIN_LOWRES)] = Shape(2, 6, 6, 3);
  refuses(ErrorKind::ShapeError,
          "fc 'head': weight is [5,1,1,192] for input [2,8,8,3] and [5,1,1,108] for [2,6,6,3]",
          [&] { compile(request, catalog()); });
}

TEST(Compiler, RefusesToRunWhatNoBackendOffers) {
  CompileRequest request = small_request(small_residual_net(), Shape(2, 8, 8, 3));
  request.config.precision = Precision::FP16;
  refuses(ErrorKind::NotSupportedError, "fp32 only", [&] { compile(request, catalog()); });
  request.config.precision = Precision::FP32;
  request.config.optimizer = OptimizerKind::LARS;
  refuses(ErrorKind::NotSupportedError, "lars can be planned", [&] { compile(request, catalog()); });
  request.plan_only = true;
  EXPECT_GT(compile(request, catalog()).plans[0].region_info(Region::N_DEEP_CONV).tensors, 0);
}

}  // namespace
}  // namespace tr
