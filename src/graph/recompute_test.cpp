#include "renaissance/graph/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "renaissance/graph/compiler.h"
#include "renaissance/graph/plan_report.h"
#include "renaissance/models.h"
#include "support/expect_error.h"

namespace tr {
namespace {

using test::refuses;

std::shared_ptr<const Catalog> catalog() { return std::make_shared<const Catalog>(make_catalog()); }

CompileRequest request_of(BluePrint model, const Shape& input, int64_t classes, BackendKind backend,
                          Precision precision) {
  CompileRequest request;
  request.model = std::move(model);
  request.inputs.fill(input);
  request.classes = classes;
  request.config.precision = precision;
  request.config.optimizer = OptimizerKind::NESTEROV;
  request.target = default_target(backend);
  request.plan_only = true;
  return request;
}

CompileRequest resnet50() {
  return request_of(make_model("resnet50", 1000), Shape(32, 224, 224, 3), 1000, BackendKind::CUDA,
                    Precision::FP16);
}

int64_t zone(const CompiledModel& model) { return model.plan(Variant::TRAIN_BASE).image().zone_bytes; }
int64_t total(const CompiledModel& model) { return model.plan(Variant::TRAIN_BASE).total_bytes(); }

int position(const CompiledModel& model, const std::string& name) {
  const auto nodes = program_nodes(model.graph, Program::TRAIN);
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const GraphNode* node) { return node->name == name; });
  EXPECT_NE(found, nodes.end()) << name;
  return static_cast<int>(found - nodes.begin());
}

TensorId id_of(const CompiledModel& model, const std::string& name) {
  const auto found = std::find(model.tensor_names.begin(), model.tensor_names.end(), name);
  EXPECT_NE(found, model.tensor_names.end()) << name;
  return static_cast<TensorId>(found - model.tensor_names.begin());
}

TEST(Recompute, DropsAfterForwardAndComputesAgainJustBeforeBackwardReads) {
  BluePrint net = seq(named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(),
                      named("conv2", conv(8, 3, 1, 1, {.bias = false})), named("bn2", bn()),
                      named("relu2", relu()), gap(), flatten(), named("fc", fc(5)));
  CompileRequest request =
      request_of(std::move(net), Shape(4, 16, 16, 3), 5, BackendKind::CPU, Precision::FP32);
  request.recompute = Recompute::CHEAP;
  const CompiledModel model = compile(request, catalog());

  // conv2's weight gradient reads bn1's output; batch norm takes its mean and variance from forward.
  const TensorId first = id_of(model, "bn1.out"), again = id_of(model, "bn1.out.recomputed");
  const Lifetime& kept = model.uses[static_cast<size_t>(first)].in(Program::TRAIN);
  EXPECT_EQ(kept.first, position(model, "bn1 forward"));
  EXPECT_EQ(kept.last, position(model, "conv2 forward"));
  const Lifetime& later = model.uses[static_cast<size_t>(again)].in(Program::TRAIN);
  EXPECT_EQ(later.first, position(model, "bn1 recompute"));
  EXPECT_EQ(later.first + 1, position(model, "conv2 backward_weight"));
  EXPECT_EQ(later.last, position(model, "conv2 backward_weight"));
  EXPECT_FALSE(model.uses[static_cast<size_t>(again)].in(Program::EVAL).is_used());
  const auto nodes = program_nodes(model.graph, Program::TRAIN);
  const GraphNode& node = *nodes[static_cast<size_t>(later.first)];
  EXPECT_EQ(node.pass, Pass::RECOMPUTE);
  for (const NodeOperand& operand : node.operands) EXPECT_NE(operand.port, Port::STATE_NEXT);
  EXPECT_EQ(model.recomputation.flops, 0);
  EXPECT_GT(model.recomputation.bytes, 0);
  EXPECT_GT(model.recomputation.time_share, 0.0);
}

/// What the choice is made with must be what the graph then has: else budgets would be missed or wasted.
TEST(Recompute, TheEstimatedPeakIsThePlansLowerBound) {
  // Of each family.
  for (const std::string name :
       {"mlp", "cnn", "resnet20", "resnet18", "resnet50", "resnet101", "vgg16_bn", "mobilenet_v3_small",
        "efficientnet_b0", "densenet121", "squeezenet1_1", "googlenet", "convnext_tiny"})
    for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
      for (const Recompute mode : {Recompute::CHEAP, Recompute::AUTO}) {
        const bool imagenet = model_input(name).channels == 3;
        CompileRequest request =
            request_of(make_model(name, 10), imagenet ? Shape(8, 64, 64, 3) : Shape(8, 28, 28, 1), 10,
                       backend, backend == BackendKind::CUDA ? Precision::FP16 : Precision::FP32);
        const CompiledModel plain = compile(request, catalog());
        request.recompute = mode;
        const CompiledModel model = compile(request, catalog());
        const PlanImage& image = model.plan(Variant::TRAIN_BASE).image();
        const ProgramMemory memory = program_memory(model, Program::TRAIN);
        EXPECT_EQ(model.recomputation.peak_bytes, memory.live_bytes[static_cast<size_t>(memory.peak)])
            << name << ' ' << recompute_name(mode);
        EXPECT_LE(image.zone_lower_bound, plain.plan(Variant::TRAIN_BASE).image().zone_lower_bound) << name;
        EXPECT_LE(image.zone_bytes, image.zone_lower_bound + image.zone_lower_bound / 100) << name;
        EXPECT_LE(total(model), total(plain)) << name;

        // A budget of exactly this peak and the packing's overshoot can be met.
        request.recompute = mode == Recompute::CHEAP ? Recompute::CHEAP : Recompute::AS_NEEDED;
        request.budget_bytes = total(model);
        const CompiledModel again = compile(request, catalog());
        EXPECT_LE(total(again), request.budget_bytes) << name << ' ' << recompute_name(mode);
      }
}

TEST(Recompute, ABudgetIsMetAndASmallerOneCostsMore) {
  CompileRequest request = resnet50();
  const CompiledModel plain = compile(request, catalog());
  const int64_t persistent = total(plain) - zone(plain);
  double before = 0.0;
  for (const double share : {1.0, 0.9, 0.75, 0.6, 0.45}) {
    request.budget_bytes = persistent + static_cast<int64_t>(share * static_cast<double>(zone(plain)));
    const CompiledModel model = compile(request, catalog());
    EXPECT_LE(total(model), request.budget_bytes);
    EXPECT_GE(model.recomputation.time_share, before);
    before = model.recomputation.time_share;
  }
  EXPECT_LT(before, 0.15);
}

TEST(Recompute, CheapNeverRepeatsArithmeticAndAutoStaysWithinItsShare) {
  CompileRequest request = resnet50();
  const auto plain = static_cast<double>(zone(compile(request, catalog())));
  request.recompute = Recompute::CHEAP;
  const CompiledModel cheap = compile(request, catalog());
  EXPECT_EQ(cheap.recomputation.flops, 0);
  EXPECT_LT(static_cast<double>(zone(cheap)), plain * 0.7);
  request.recompute = Recompute::AUTO;
  const CompiledModel most = compile(request, catalog());
  EXPECT_LE(most.recomputation.time_share, MOST_RECOMPUTATION);
  EXPECT_LT(static_cast<double>(zone(most)), plain * 0.4);
}

/// Equal steps in a row, the textbook case: keeping some of them as checkpoints needs far less than half.
TEST(Recompute, AChainKeepsCheckpoints) {
  std::vector<BluePrint> steps{conv(4, 1)};  // something below them that trains
  for (int i = 0; i < 100; ++i) steps.push_back(leaky_relu());
  for (const BluePrint& last : {gap(), flatten(), fc(5)}) steps.push_back(last);
  CompileRequest request =
      request_of(seq(std::move(steps)), Shape(16, 8, 8, 4), 5, BackendKind::CPU, Precision::FP32);
  const int64_t plain = zone(compile(request, catalog()));
  request.recompute = Recompute::CHEAP;
  EXPECT_LT(zone(compile(request, catalog())), plain * 3 / 10);
}

TEST(Recompute, TheSameChoiceEachTime) {
  CompileRequest request = resnet50();
  request.recompute = Recompute::AUTO;
  EXPECT_EQ(plan_json(compile(request, catalog())), plan_json(compile(request, catalog())));
}

TEST(Recompute, ATooSmallBudgetIsRefusedWithTheLeastThatWorks) {
  CompileRequest request = resnet50();
  request.budget_bytes = 200 << 20;
  std::string message;
  try {
    compile(request, catalog());
    FAIL() << "a budget of 200 MiB was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::RecipeError);
    message = error.what();
  }
  const std::string marker = "this training needs ";
  ASSERT_NE(message.find(marker), std::string::npos) << message;
  request.budget_bytes = std::stoll(message.substr(message.find(marker) + marker.size()));
  EXPECT_LE(total(compile(request, catalog())), request.budget_bytes);
}

TEST(Recompute, Refusals) {
  CompileRequest request = resnet50();
  const int64_t plain = total(compile(request, catalog()));
  request.recompute = Recompute::NONE;
  request.budget_bytes = plain;
  EXPECT_EQ(total(compile(request, catalog())), plain);
  request.budget_bytes = plain - 1;
  refuses(ErrorKind::RecipeError,
          cat("memory.budget: ", plain - 1, " bytes; this training needs ", plain, " without recomputation"),
          [&] { compile(request, catalog()); });
  request.recompute = Recompute::AUTO;
  request.config.layout = Layout::LINEAR;
  refuses(ErrorKind::RecipeError, "memory.layout: linear", [&] { compile(request, catalog()); });
}

}  // namespace
}  // namespace tr
