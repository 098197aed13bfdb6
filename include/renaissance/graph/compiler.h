/// From a blueprint to everything a run needs, as values: five phases, no device touched.
///   1. derive the tensors of every layer for every variant   4. lifetimes, layout, one plan per variant
///   2. the largest slot of each tensor over the variants      5. share captures between variants
///   3. the graphs of training and inference
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "renaissance/graph/arch_plan.h"
#include "renaissance/graph/computation_graph.h"
#include "renaissance/graph/graph_atlas.h"
#include "renaissance/graph/memory_plan.h"
#include "renaissance/graph/recompute.h"
#include "renaissance/graph/schedule.h"

namespace tr {

struct CompileRequest {
  BluePrint model;
  /// Input [N, H, W, C] of one rank, per Variant. A variant that does not occur repeats another's shape.
  std::array<Shape, NUM_VARIANTS> inputs;
  int64_t classes = 0;
  PlanConfig config;  ///< backend is taken from the target
  Target target;
  ScheduleSpec schedule;
  bool decay_norm_and_bias = false;
  /// Input pixels are (value / 255 - mean) / std per channel; a backend that takes raw bytes computes this.
  std::vector<float> pixel_mean, pixel_std;  ///< one per channel; empty: 0 and 1
  Recompute recompute = Recompute::AS_NEEDED;
  int64_t budget_bytes = 0;  ///< the most that a rank's arena may have; 0: as many as it takes
  /// false: everything must be runnable, and what no backend offers is refused. true: plan only.
  bool plan_only = false;
};

/// One operator call site. Layers come first, in ArchPlan's order; then the loss; then the compiler's own
/// (sums and copies of gradients).
struct OpInstance {
  std::string name;
  const CatalogEntry* entry = nullptr;
  Attributes attrs;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  bool reads_network_input = false;
  std::vector<bool> needs_dx;
  int gradients = 1;  ///< see OpQuery
  int statistics = 0;
};

/// One trainable tensor of the model.
struct Parameter {
  std::string name;  ///< "layer1.0.conv1.weight"
  ParamSpec spec;
  ParameterTensors tensors;
};

/// Running statistics of one BatchNorm layer.
struct Statistics {
  std::string layer;  ///< "layer1.0.bn1": state_dict keys <layer>.running_mean and .running_var
  int64_t channels = 0;
  double momentum = 0.0;  ///< next = (1 − momentum) × prev + momentum × batch
  BnStats tensors;
};

/// What recomputation costs a training step, by an estimate from bytes and operations.
struct RecomputeSummary {
  std::vector<ValueId> values;             ///< that have a second tensor
  int64_t bytes = 0, flops = 0;            ///< that the recomputing nodes move and do
  int64_t step_bytes = 0, step_flops = 0;  ///< of forward and backward without them
  double time_share = 0.0;                 ///< added time over theirs
  int64_t peak_bytes = 0;                  ///< alive at once in training, as the choice was made
};

struct CompiledModel {
  std::shared_ptr<const Catalog> catalog;
  CompileRequest request;
  ArchPlan arch;
  std::array<std::vector<Shape>, NUM_VARIANTS> shapes;  ///< storage shape of every value
  std::vector<OpInstance> ops;
  std::vector<MemoryPlan> plans;  ///< by Variant
  ComputationGraph graph;
  GraphAtlas atlas;
  std::vector<Parameter> parameters;
  std::vector<Statistics> statistics;
  std::vector<std::string> tensor_names;  ///< by id, for reports
  std::vector<TransientUse> uses;         ///< by id; takeovers in layout PACKED only
  RecomputeSummary recomputation;
  TensorId raw_input = NO_TENSOR;  ///< CUDA: the next batch as bytes, labels first

  const MemoryPlan& plan(Variant variant) const { return plans[static_cast<size_t>(variant)]; }
  /// The query of call site `op` in a variant.
  OpQuery query(int op, Variant variant) const;
  int64_t num_parameters() const;  ///< trainable elements
};

/// Throws RecipeError, ShapeError or NotSupportedError naming the layer; RecipeError for a budget that cannot
/// be met, with what the most recomputation that was found needs.
CompiledModel compile(const CompileRequest& request, std::shared_ptr<const Catalog> catalog);

/// Bytes before the pixels in a raw batch of any variant: the INT32 labels of the largest, rounded up to 256.
int64_t raw_label_bytes(const CompileRequest& request);

/// The parts of `program`, in order.
std::vector<GraphId> program_parts(Program program);
/// The nodes of `program` in the order they run: positions of Lifetime.
std::vector<const GraphNode*> program_nodes(const ComputationGraph& graph, Program program);

}  // namespace tr
