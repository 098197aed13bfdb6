#include "renaissance/graph/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "renaissance/graph/plan_report.h"
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
  EXPECT_EQ(value(Variant::VAL_LAST, "layer4.2.conv3.out.inference"), Shape(80, 7, 7, 2048));
  EXPECT_EQ(model.num_parameters(), 25557032);  // torchvision's resnet50
}

/// What only one program uses is as large as its own variants ask for: validation batches may be large.
TEST(Compiler, ALargeValidationBatchDoesNotEnlargeTraining) {
  CompileRequest request = small_request(small_residual_net(), Shape(8, 16, 16, 3));
  const auto slots = [&](int64_t val_batch) {
    request.inputs[4] = request.inputs[5] = Shape(val_batch, 16, 16, 3);
    const CompiledModel model = compile(request, catalog());
    int64_t trained = 0, inferred = 0;
    for (const DTensor& tensor : model.plan(Variant::TRAIN_BASE).tensors()) {
      const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
      if (tensor.region != Region::F_FEATURE_FP32 && tensor.region != Region::F_GRAD_SLOT_FP32) continue;
      (use.in(Program::TRAIN).is_used() ? trained : inferred) += tensor.slot_bytes;
    }
    return std::pair{trained, inferred};
  };
  const auto small = slots(8), large = slots(80);
  EXPECT_EQ(large.first, small.first);
  EXPECT_GT(large.second, 9 * small.second);
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
  for (const Layout layout : {Layout::PACKED, Layout::LINEAR}) {
    CompileRequest request = imagenet("resnet18", BackendKind::CUDA, Precision::BF16);
    request.config.layout = layout;
    const std::string plan = plan_json(compile(request, catalog()));
    for (const int threads : {0, 1, 64}) {  // a CUDA plan has nothing to do with the host's
      request.target.threads = threads;
      EXPECT_EQ(plan_json(compile(request, catalog())), plan) << threads;
    }
  }
}

CompileRequest zoo_request(const std::string& name, BackendKind backend, Precision precision) {
  const ModelInput input = model_input(name);
  const auto of_batch = [&](int64_t samples) {
    return Shape(samples, input.height, input.width, input.channels);
  };
  CompileRequest request = small_request(make_model(name, input.classes), of_batch(32), input.classes);
  request.inputs[static_cast<size_t>(Variant::TRAIN_LAST)] = of_batch(7);
  request.inputs[static_cast<size_t>(Variant::VAL_LAST)] = of_batch(20);
  request.config.precision = precision;
  request.config.optimizer = OptimizerKind::NESTEROV;
  request.target = default_target(backend);
  request.target.threads = 2;
  request.plan_only = true;
  return request;
}

/// Zone over lower bound, as reached. To be lowered when packing gets better, never raised.
double reached_overshoot(const std::string& name) {
  if (name == "resnet101") return 1.0035;
  return name == "googlenet" ? 1.0013 : 1.0;
}

bool is_feature(Region region) {
  return region == Region::F_FEATURE_FP32 || region == Region::F_FEATURE_FP16;
}
bool is_gradient(Region region) {
  return region == Region::F_GRAD_SLOT_FP32 || region == Region::F_GRAD_SLOT_FP16;
}

/// A gradient takes over another's bytes, or where backward needs neither a feature map does, at the node
/// that reads one for the last time and writes the other.
void check_takeovers(const CompiledModel& model) {
  const std::vector<const GraphNode*> nodes = program_nodes(model.graph, Program::TRAIN);
  const auto is_in = [&](const GraphNode& node, GraphId part) {
    const std::vector<GraphNode>& list = model.graph.part(part);
    return &node >= list.data() && &node < list.data() + list.size();
  };
  const auto touches = [](const GraphNode& node, TensorId id, bool NodeOperand::*how) {
    return std::ranges::any_of(node.operands,
                               [&](const NodeOperand& operand) { return operand.id == id && operand.*how; });
  };
  std::set<TensorId> taken;
  for (const DTensor& tensor : model.plans[0].tensors()) {
    const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
    const TensorId from = use.in_place_of;
    if (from == NO_TENSOR) continue;
    const std::string& name = model.tensor_names[static_cast<size_t>(tensor.id)];
    EXPECT_TRUE(taken.insert(from).second) << name << " takes what another took";
    const DTensor& given = model.plans[0].tensor(from);
    const bool feature = is_feature(tensor.region);
    EXPECT_TRUE(feature ? is_feature(given.region) : is_gradient(tensor.region) && is_gradient(given.region))
        << name;
    EXPECT_EQ(tensor.offset, given.offset) << name;
    const auto at = static_cast<size_t>(use.in(Program::TRAIN).first);
    const GraphNode& node = *nodes.at(at);
    EXPECT_TRUE(is_in(node, feature ? GraphId::FORWARD : GraphId::BACKWARD)) << name;
    EXPECT_TRUE(touches(node, from, &NodeOperand::read) && touches(node, tensor.id, &NodeOperand::write))
        << name;
    for (size_t later = at + 1; later < nodes.size(); ++later)
      EXPECT_FALSE(touches(*nodes[later], from, &NodeOperand::read)) << name;
  }
}

TEST(Compiler, EveryZooModelPacksInEveryPrecisionForBothTargets) {
  for (const std::string& name : model_names())
    for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
      for (const Precision precision : {Precision::FP32, Precision::FP16, Precision::BF16}) {
        SCOPED_TRACE(cat(name, ' ', backend_name(backend), ' ', precision_name(precision)));
        CompileRequest request = zoo_request(name, backend, precision);
        const CompiledModel packed = compile(request, catalog());
        request.config.layout = Layout::LINEAR;
        const CompiledModel linear = compile(request, catalog());
        EXPECT_LE(packed.plans[0].total_bytes(), linear.plans[0].total_bytes());
        const PlanImage& image = packed.plans[0].image();
        // Scratch on the CPU is that of its instruction set.
        const double most = backend == BackendKind::CUDA ? reached_overshoot(name) : 1.01;
        EXPECT_LE(static_cast<double>(image.zone_bytes), most * static_cast<double>(image.zone_lower_bound));
        EXPECT_EQ(image.zone_lower_bound, std::max(program_memory(packed, Program::TRAIN).peak_bytes(),
                                                   program_memory(packed, Program::EVAL).peak_bytes()));
        check_takeovers(packed);
      }
}

/// Of every node and variant, whatever other layers were asked for before it.
void check_workspaces(const CompiledModel& model) {
  for (const Program program : {Program::TRAIN, Program::EVAL})
    for (const GraphNode* node : program_nodes(model.graph, program)) {
      if (node->kind != NodeKind::COMPUTE) continue;
      const Variant variant = program == Program::TRAIN ? Variant::TRAIN_BASE : Variant::VAL_BASE;
      const CatalogEntry& entry = *model.ops[static_cast<size_t>(node->op)].entry;
      const int64_t needed =
          model.catalog->offer(entry, model.query(node->op, variant), node->pass).workspace_bytes;
      const int64_t has =
          node->workspace == NO_TENSOR ? 0 : model.plan(variant).tensor(node->workspace).slot_bytes;
      EXPECT_GE(has, needed) << node->name;
    }
}

TEST(Compiler, LayersOfOneShapeHaveTheWorkspaceOfTheirOwnSurroundings) {
  const auto same = [] { return conv(16, 3, 1, 1); };
  const BluePrint tail = seq(gap(), flatten(), fc(5));
  for (const BluePrint& net :
       {seq(same(), gelu(), same(), bn(), tail), seq(same(), bn(), same(), gelu(), tail)})
    for (const Precision precision : {Precision::FP32, Precision::FP16})
      for (const bool deterministic : {false, true}) {
        CompileRequest request = small_request(net, Shape(8, 16, 16, 16));
        request.config.precision = precision;
        request.target = default_target(BackendKind::CUDA);
        request.target.deterministic = deterministic;
        request.plan_only = true;
        check_workspaces(compile(request, catalog()));
      }
  CompileRequest request = zoo_request("densenet121", BackendKind::CUDA, Precision::FP16);
  request.target.deterministic = false;
  check_workspaces(compile(request, catalog()));
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

TEST(Compiler, BranchesReadOneValueAndTheirGradientsAreSummed) {
  const BluePrint cell =
      branches("concat", {named("input", identity()),
                          without_level(seq(named("conv1", conv(8, 3, 1, 1)), named("conv2", conv(4, 1)))),
                          named("side", conv(4, 1))});
  const CompiledModel model = compile(
      small_request(seq(conv(8, 3), relu(), named("cell", cell), gap(), flatten(), fc(5)), Shape(2, 8, 8, 3)),
      catalog());
  const auto layer = [&](std::string_view name) {
    const auto found = std::ranges::find(model.arch.layers, name, &Layer::name);
    EXPECT_NE(found, model.arch.layers.end()) << name;
    return *found;
  };
  std::set<std::string> names;
  for (const Parameter& parameter : model.parameters) names.insert(parameter.name);
  EXPECT_TRUE(names.contains("cell.conv2.weight"));
  EXPECT_TRUE(names.contains("cell.side.bias"));
  EXPECT_EQ(layer("cell.concat").inputs.size(), 3u);
  EXPECT_EQ(layer("cell.side").inputs, layer("cell.conv1").inputs);
  // Three readers, two sums.
  const std::vector<std::string> backward = node_names(model, GraphId::BACKWARD);
  EXPECT_EQ(
      std::ranges::count_if(backward, [](const std::string& n) { return n.ends_with("grad_sum forward"); }),
      2);
}

TEST(Compiler, RefusesBranchesThatDoNotFit) {
  const auto refuse = [](ErrorKind kind, const std::string& text, const BluePrint& cell) {
    refuses(kind, text, [&] {
      compile(small_request(seq(named("cell", cell), gap(), flatten(), fc(5)), Shape(2, 8, 8, 3)), catalog());
    });
  };
  refuse(ErrorKind::ShapeError, "concat 'cell.concat': inputs [2,8,8,4] and [2,4,4,4] differ",
         branches("concat", {conv(4, 1), conv(4, 1, 2)}));
  refuse(ErrorKind::RecipeError, "'cell.add': add takes 2 inputs, this place gives 1",
         branches("add", {conv(4, 1)}));
  refuse(ErrorKind::RecipeError, "'cell.relu': relu takes 1 input, this place gives 2",
         branches("relu", {conv(4, 1), conv(4, 1)}));
  refuse(ErrorKind::RecipeError, "'cell.conv': two layers have this name",
         branches("concat", {without_level(seq(named("conv", conv(4, 1)))),
                             without_level(seq(named("conv", conv(4, 1))))}));
  refuses(ErrorKind::RecipeError, "relu: a layer called '.' takes the name of its block, which has none here",
          [] {
            compile(small_request(seq(without_level(relu()), gap(), flatten(), fc(5)), Shape(2, 8, 8, 3)),
                    catalog());
          });
}

TEST(Compiler, LeavesOutALayerThatChangesNothingForEveryVariant) {
  const BluePrint net =
      seq(conv(4, 3, 1, 1), named("pool", adaptive_avgpool(8)), flatten(), named("fc", fc(5)));
  const auto layers = [](const CompiledModel& model) { return model.arch.layers.size(); };
  CompileRequest request = small_request(net, Shape(2, 8, 8, 3));
  const CompiledModel same = compile(request, catalog());
  request.inputs[static_cast<size_t>(Variant::TRAIN_LOWRES)] = Shape(2, 6, 6, 3);
  const CompiledModel other = compile(request, catalog());
  EXPECT_EQ(layers(same) + 1, layers(other));
  ASSERT_EQ(same.parameters.size(), other.parameters.size());
  for (size_t i = 0; i < same.parameters.size(); ++i) {
    EXPECT_EQ(same.parameters[i].name, other.parameters[i].name);
    EXPECT_EQ(same.parameters[i].spec.shape, other.parameters[i].spec.shape);
  }
  EXPECT_EQ(same.parameters[2].spec.flattened_hwc, (std::array<int64_t, 3>{8, 8, 4}));
}

TEST(Compiler, ElementwiseLayersKeepTheOrderOfWhatWasFlattened) {
  const BluePrint net = seq(conv(3, 3, 1, 1), flatten(), dropout(0.5), relu(), tanh(), named("fc", fc(5)));
  const CompiledModel model = compile(small_request(net, Shape(2, 4, 5, 3)), catalog());
  ASSERT_EQ(model.parameters[2].name, "fc.weight");
  EXPECT_EQ(model.parameters[2].spec.flattened_hwc, (std::array<int64_t, 3>{4, 5, 3}));
}

TEST(Compiler, RefusesLayersThatWouldMisreadWhatWasFlattened) {
  const auto refused = [](const BluePrint& layer, const std::string& text) {
    test::refuses(ErrorKind::ShapeError, text, [&] {
      compile(small_request(seq(conv(3, 3, 1, 1), flatten(), layer, fc(5)), Shape(2, 4, 5, 3)), catalog());
    });
  };
  refused(bn(),
          "bn '2': reads the flattened feature map [2,4,5,3] as [2,1,1,60], which it cannot; put it before "
          "flatten, or fc after flatten");
  refused(seq(relu(), bn()), "bn '2.1': reads the flattened feature map");
  refused(conv(4, 1), "conv '2': reads the flattened feature map");
  refused(gap(), "gap '2': reads the flattened feature map");
  refused(branches("concat", {identity(), relu()}), ": reads the flattened feature map");
  test::refuses(ErrorKind::ShapeError, "let the last layer be fc(classes)", [] {
    compile(small_request(seq(conv(1, 4, 1, 0), flatten(), relu()), Shape(2, 4, 8, 3)), catalog());
  });
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

TEST(Compiler, LarsHasTrustRatios) {
  CompileRequest request = small_request(small_residual_net(), Shape(2, 8, 8, 3));
  request.config.optimizer = OptimizerKind::LARS;
  EXPECT_GT(compile(request, catalog()).plans[0].region_info(Region::N_DEEP_CONV).tensors, 0);
}

}  // namespace
}  // namespace tr
