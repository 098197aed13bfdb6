#include "graph/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace tr {
namespace {

BluePrint conv3(int64_t channels) { return conv(channels, 3, 1, 1, {.bias = false}); }

BluePrint block() {
  return residual(seq(named("conv1", conv3(8)), named("bn1", bn()), named("relu1", relu()),
                      named("conv2", conv3(8)), named("bn2", bn())));
}

BluePrint residual_net() {
  return seq(named("conv1", conv3(8)), named("bn1", bn()), named("relu1", relu()), named("block", block()),
             named("relu2", relu()), named("gap", gap()), flatten(), named("fc", fc(5)));
}

CompiledModel compiled(BluePrint model, BackendKind backend = BackendKind::CPU, bool fuse = true,
                       Layout layout = Layout::PACKED) {
  CompileRequest request;
  request.model = std::move(model);
  const Shape input(4, 8, 8, 3), smaller(3, 8, 8, 3);
  request.inputs = {input, smaller, input, smaller, Shape(6, 8, 8, 3), smaller};
  request.classes = 5;
  request.config.layout = layout;
  request.target = default_target(backend);
  request.target.fuse = fuse;
  request.target.workspace_cap_bytes = 256 << 10;
  request.plan_only = true;
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

std::vector<std::string> names_of_nodes(const CompiledModel& model, Program program) {
  std::vector<std::string> names;
  for (const GraphNode* node : program_nodes(model.graph, program)) names.push_back(node->name);
  return names;
}

const std::string& name_of(const CompiledModel& model, TensorId id) {
  return model.tensor_names[static_cast<size_t>(id)];
}

/// A program's positions of everything transient but the workspaces, by name.
std::map<std::string, std::pair<int, int>> lifetimes(const CompiledModel& model, Program program) {
  std::map<std::string, std::pair<int, int>> lives;
  for (size_t id = 0; id < model.uses.size(); ++id) {
    const Lifetime& life = model.uses[id].in(program);
    const std::string& name = model.tensor_names[id];
    if (life.is_used() && !name.ends_with("workspace")) lives[name] = {life.first, life.last};
  }
  return lives;
}

std::map<std::string, std::string> takeovers(const CompiledModel& model) {
  std::map<std::string, std::string> by_name;
  for (size_t id = 0; id < model.uses.size(); ++id)
    if (const TensorId from = model.uses[id].in_place_of; from != NO_TENSOR)
      by_name[model.tensor_names[id]] = name_of(model, from);
  return by_name;
}

TEST(Lifetimes, OfAResidualNetworkByHand) {
  const CompiledModel model = compiled(residual_net());
  const std::vector<std::string> nodes = names_of_nodes(model, Program::TRAIN);
  const std::vector<std::string> first_22{"RANGE_D2D_COPY",
                                          "conv1 forward",
                                          "bn1 forward",
                                          "block.conv1 forward",
                                          "block.bn1 forward",
                                          "block.conv2 forward",
                                          "block.bn2 forward",
                                          "gap forward",
                                          "fc forward",
                                          "loss forward",
                                          "fc backward_weight",
                                          "fc backward_data",
                                          "gap backward",
                                          "block.bn2 backward",
                                          "block.conv2 backward_weight",
                                          "block.conv2 backward_data",
                                          "block.bn1 backward",
                                          "block.conv1 backward_weight",
                                          "block.conv1 backward_data",
                                          "bn1.grad_sum forward",
                                          "bn1 backward",
                                          "conv1 backward_weight"};
  ASSERT_EQ(std::vector<std::string>(nodes.begin(), nodes.begin() + 22), first_22);
  const std::map<std::string, std::pair<int, int>> train{
      {"label", {0, 9}},
      // Convolutions keep x, batch norm keeps x, and y where it adds before ReLU.
      {"conv1.out", {1, 20}},
      {"bn1.out", {2, 17}},
      {"block.conv1.out", {3, 16}},
      {"block.bn1.out", {4, 14}},
      {"block.conv2.out", {5, 13}},
      {"block.bn2.out", {6, 13}},
      {"gap.out", {7, 10}},
      {"fc.out", {8, 9}},
      {"bn1.saved.mean", {2, 20}},
      {"bn1.saved.inverse_std", {2, 20}},
      {"block.bn1.saved.mean", {4, 16}},
      {"block.bn1.saved.inverse_std", {4, 16}},
      {"block.bn2.saved.mean", {6, 13}},
      {"block.bn2.saved.inverse_std", {6, 13}},
      {"fc.out.grad.0", {9, 11}},
      {"gap.out.grad.1", {11, 12}},
      {"block.bn2.out.grad.2", {12, 13}},
      {"block.conv2.out.grad.3", {13, 15}},
      {"bn1.out.grad.4", {13, 19}},  // round the block
      {"block.bn1.out.grad.5", {15, 16}},
      {"block.conv1.out.grad.6", {16, 18}},
      {"bn1.out.grad.7", {18, 19}},  // through it
      {"bn1.out.grad.8", {19, 20}},  // their sum
      {"conv1.out.grad.9", {20, 21}}};
  EXPECT_EQ(lifetimes(model, Program::TRAIN), train);
  const std::map<std::string, std::pair<int, int>> eval{{"label", {0, 9}},
                                                        {"conv1.out.inference", {1, 2}},
                                                        {"bn1.out.inference", {2, 6}},
                                                        {"block.conv1.out.inference", {3, 4}},
                                                        {"block.bn1.out.inference", {4, 5}},
                                                        {"block.conv2.out.inference", {5, 6}},
                                                        {"block.bn2.out.inference", {6, 7}},
                                                        {"gap.out.inference", {7, 8}},
                                                        {"fc.out.inference", {8, 9}}};
  EXPECT_EQ(lifetimes(model, Program::EVAL), eval);
}

TEST(Lifetimes, BytesAreTakenOverByWhatMayLieOnThem) {
  using Takeovers = std::map<std::string, std::string>;
  // Batch norm's second gradient is the incoming one under the mask; a convolution's lies elsewhere.
  EXPECT_EQ(takeovers(compiled(residual_net())),
            (Takeovers{{"bn1.out.grad.4", "block.bn2.out.grad.2"},
                       {"block.conv1.out.grad.6", "block.bn1.out.grad.5"},
                       {"bn1.out.grad.8", "bn1.out.grad.4"},
                       {"conv1.out.grad.9", "bn1.out.grad.8"}}));
  // Apart, the sum's gradient is that of both branches: block.bn2 reads it but may not have its bytes.
  const CompiledModel apart = compiled(residual_net(), BackendKind::CPU, false);
  EXPECT_EQ(takeovers(apart), (Takeovers{{"block.add.out", "block.bn2.out"},  // no backward reads either
                                         {"block.add.out.grad.3", "relu2.out.grad.2"},
                                         {"block.bn1.out.grad.6", "block.relu1.out.grad.5"},
                                         {"block.conv1.out.grad.7", "block.bn1.out.grad.6"},
                                         {"relu1.out.grad.9", "block.add.out.grad.3"},
                                         {"bn1.out.grad.10", "relu1.out.grad.9"},
                                         {"conv1.out.grad.11", "bn1.out.grad.10"}}));
  EXPECT_EQ(takeovers(compiled(seq(flatten(), named("fc1", fc(9)), named("drop", dropout(0.5)),
                                   named("fc2", fc(8)), named("leaky", leaky_relu()), named("fc3", fc(5))))),
            (Takeovers{{"fc1.out.grad.4", "drop.out.grad.3"}, {"fc2.out.grad.2", "leaky.out.grad.1"}}));
}

/// CUDA's batch norm sums two gradients itself: each of its outputs takes one over.
TEST(Lifetimes, TwoGradientsOfOneNodeAreBothTakenOver) {
  const CompiledModel model =
      compiled(seq(named("conv1", conv3(8)), named("bn1", bn()), named("a", block()), named("relu_a", relu()),
                   named("b", block()), named("relu_b", relu()), gap(), flatten(), fc(5)),
               BackendKind::CUDA);
  const auto node =
      std::ranges::find(model.graph.part(GraphId::BACKWARD), "a.bn2 backward", &GraphNode::name);
  ASSERT_NE(node, model.graph.part(GraphId::BACKWARD).end());
  const auto operand = [&](Port port, int index) {
    const auto found = std::ranges::find_if(
        node->operands, [&](const NodeOperand& o) { return o.port == port && o.index == index; });
    return found == node->operands.end() ? NO_TENSOR : found->id;
  };
  ASSERT_NE(operand(Port::DY, 1), NO_TENSOR);
  for (const int index : {0, 1}) {
    const TensorId out = operand(Port::DX, 1 - index), in = operand(Port::DY, index);
    EXPECT_EQ(model.uses[static_cast<size_t>(out)].in_place_of, in);
    EXPECT_EQ(model.plans[0].tensor(out).offset, model.plans[0].tensor(in).offset);
  }
}

TEST(Lifetimes, LinearPlansHaveNoTakeovers) {
  for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
    EXPECT_TRUE(takeovers(compiled(residual_net(), backend, true, Layout::LINEAR)).empty());
}

TEST(Lifetimes, EachNodeHasAWorkspaceOfItsOwnAndLinearPlansShareOne) {
  for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
    for (const Layout layout : {Layout::PACKED, Layout::LINEAR}) {
      const CompiledModel model = compiled(residual_net(), backend, true, layout);
      std::set<TensorId> workspaces;
      size_t nodes_with_one = 0;
      for (const Program program : {Program::TRAIN, Program::EVAL}) {
        const std::vector<const GraphNode*> nodes = program_nodes(model.graph, program);
        for (size_t position = 0; position < nodes.size(); ++position) {
          const TensorId workspace = nodes[position]->workspace;
          if (workspace == NO_TENSOR) continue;
          ++nodes_with_one;
          workspaces.insert(workspace);
          const Lifetime& life = model.uses[static_cast<size_t>(workspace)].in(program);
          if (layout == Layout::LINEAR) continue;
          EXPECT_EQ(life.first, static_cast<int>(position)) << nodes[position]->name;
          EXPECT_EQ(life.last, static_cast<int>(position)) << nodes[position]->name;
          EXPECT_EQ(name_of(model, workspace), nodes[position]->name + ".workspace");
        }
      }
      EXPECT_GT(nodes_with_one, 5u);
      EXPECT_EQ(workspaces.size(), layout == Layout::PACKED ? nodes_with_one : 1);
    }
}

TEST(Lifetimes, TheNextBatchIsAlwaysNeededOnCuda) {
  for (const Layout layout : {Layout::PACKED, Layout::LINEAR}) {
    const CompiledModel cuda = compiled(residual_net(), BackendKind::CUDA, true, layout),
                        cpu = compiled(residual_net(), BackendKind::CPU, true, layout);
    EXPECT_EQ(cpu.raw_input, NO_TENSOR);
    ASSERT_NE(cuda.raw_input, NO_TENSOR);
    for (size_t id = 0; id < cuda.uses.size(); ++id)
      EXPECT_EQ(cuda.uses[id].always, static_cast<TensorId>(id) == cuda.raw_input) << cuda.tensor_names[id];
    EXPECT_TRUE(std::ranges::none_of(cpu.uses, [](const TransientUse& use) { return use.always; }));
  }
}

// ---- Dead bytes, against the definition for every 256 bytes of the arena.

bool covers(const DTensor& tensor, int64_t offset) {
  return tensor.offset <= offset && offset < tensor.offset + tensor.slot_bytes;
}

class DeadBytes : public testing::TestWithParam<std::tuple<BackendKind, Layout>> {
 protected:
  DeadBytes()
      : model_(
            compiled(residual_net(), std::get<BackendKind>(GetParam()), true, std::get<Layout>(GetParam()))),
        plan_(model_.plan(Variant::TRAIN_BASE)) {}

  /// By the definition: dies with `node`, or for −1 is transient at all, and nobody has it afterwards.
  bool is_dead(Program program, int node, int64_t offset) const {
    bool dies = false;
    for (const DTensor& tensor : plan_.tensors()) {
      if (!region_traits(tensor.region).transient || !covers(tensor, offset)) continue;
      const TransientUse& use = model_.uses[static_cast<size_t>(tensor.id)];
      const Lifetime& life = use.in(program);
      if (use.always || (node >= 0 && life.is_used() && life.first <= node && node < life.last)) return false;
      dies = dies || node < 0 || (life.is_used() && life.last == node);
    }
    return dies;
  }

  const CompiledModel model_;
  const MemoryPlan& plan_;
};

TEST_P(DeadBytes, AreThoseThatNobodyNeedsAfterTheNode) {
  for (const Program program : {Program::TRAIN, Program::EVAL}) {
    const std::vector<std::vector<ByteRange>> dead = dead_bytes(model_, program);
    ASSERT_EQ(dead.size(), program_nodes(model_.graph, program).size() + 1);
    for (size_t entry = 0; entry < dead.size(); ++entry) {
      const auto listed = [&](int64_t offset) {
        return std::ranges::any_of(dead[entry], [&](const ByteRange& range) {
          return range.offset <= offset && offset < range.end();
        });
      };
      for (int64_t offset = 0; offset < plan_.total_bytes(); offset += ARENA_ALIGNMENT_BYTES)
        ASSERT_EQ(listed(offset), is_dead(program, static_cast<int>(entry) - 1, offset))
            << program_name(program) << " entry " << entry << " byte " << offset;
      for (size_t i = 0; i + 1 < dead[entry].size(); ++i)
        EXPECT_LT(dead[entry][i].end(), dead[entry][i + 1].offset) << "sorted, and merged where they touch";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, DeadBytes,
                         testing::Combine(testing::Values(BackendKind::CPU, BackendKind::CUDA),
                                          testing::Values(Layout::PACKED, Layout::LINEAR)),
                         [](const auto& tested) {
                           return cat(backend_name(std::get<BackendKind>(tested.param)), '_',
                                      layout_name(std::get<Layout>(tested.param)));
                         });

}  // namespace
}  // namespace tr
