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
#include "renaissance/graph/ema.h"
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
  EmaSpec ema;  ///< where config.has_ema
  /// Of sgd, momentum and nesterov: w *= 1 - rate × decay before the step, and no decay in the gradient.
  bool decoupled_decay = false;
  double clip_norm = 0.0;                  ///< the most that the norm of all gradients may be; 0: any
  int64_t loss_scale_growth_steps = 2000;  ///< clean steps until it doubles; 0: the scale stays as it is
  /// Globs over parameter names ("layer1.*"; * stands for any characters): these keep their values.
  std::vector<std::string> freeze;
  /// Batch norm whose parameters are all frozen normalizes with its running statistics and keeps them.
  bool freeze_statistics = false;
  /// Input pixels are (value / 255 - mean) / std per channel; a backend that takes raw bytes computes this.
  std::vector<float> pixel_mean, pixel_std;  ///< one per channel; empty: 0 and 1
  /// Samples of training batches are mixed as the BatchMix that comes with each batch says.
  bool mix_samples = false;
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
  bool bn_folded = false;
  std::vector<bool> frozen{};  ///< by parameter; empty: all train
};

/// One trainable tensor of the model.
struct Parameter {
  std::string name;  ///< "layer1.0.conv1.weight"
  ParamSpec spec;
  ParameterTensors tensors;
  bool frozen = false;  ///< keeps its value, see CompileRequest::freeze
};

/// Running statistics of one BatchNorm layer.
struct Statistics {
  std::string layer;  ///< "layer1.0.bn1": state_dict keys <layer>.running_mean and .running_var
  int64_t channels = 0;
  double momentum = 0.0;  ///< next = (1 − momentum) × prev + momentum × batch
  double epsilon = 0.0;   ///< added to the variance
  BnStats tensors;
  ParameterTensors weight, bias;
  bool frozen = false;  ///< next = prev
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
  TensorId norm_sums = NO_TENSOR;  ///< CUDA: NORM_SUMS_BYTES of scratch where a step needs norms

  const MemoryPlan& plan(Variant variant) const { return plans[static_cast<size_t>(variant)]; }
  /// The query of call site `op` in a variant.
  OpQuery query(int op, Variant variant) const;
  int64_t num_parameters() const;  ///< trainable elements
  /// What an evaluation of averaged weights reads in place of tensor `id`: E_* for W_*, E_*_FP16 for A_*, any
  /// other itself.
  TensorId averaged(TensorId id) const;
};

/// Throws RecipeError, ShapeError or NotSupportedError naming the layer; RecipeError for a budget that cannot
/// be met, with what the most recomputation that was found needs.
CompiledModel compile(const CompileRequest& request, std::shared_ptr<const Catalog> catalog);

/// Bytes before the pixels in a raw batch of any variant: the INT32 labels of the largest, rounded up to 256;
/// where samples are mixed there is room for a BatchMix, which takes the last bytes.
int64_t raw_label_bytes(const CompileRequest& request);

/// Scratch of RANGE_CLIP_NORM and RANGE_TRUST_RATIOS on CUDA: sums of squares of pieces, in double.
inline constexpr int64_t NORM_SUMS_BYTES = 32 << 10;

/// The parts of `program`, in order.
std::vector<GraphId> program_parts(Program program);
/// The parts of a captured step, in order; MICRO_BATCH leaves some of TRAIN's out. ValueError where the
/// configuration has no such step: MICRO_BATCH without accumulation or of a validation variant, AVERAGED
/// without EMA or of a training variant.
std::vector<GraphId> step_parts(const CompiledModel& model, Variant variant, StepKind kind);
/// The nodes of `program` in the order they run: positions of Lifetime.
std::vector<const GraphNode*> program_nodes(const ComputationGraph& graph, Program program);

}  // namespace tr
