#include "renaissance/graph/compiler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "graph/lifetimes.h"
#include "graph/recompute.h"
#include "graph/wiring.h"
#include "renaissance/core/batch_mix.h"

namespace tr {

namespace {

constexpr std::array<std::string_view, NUM_BASELINE_IDS> BASELINE_NAMES{"input_a.label",
                                                                        "input_a.mix",
                                                                        "input_a.data",
                                                                        "input_b.label",
                                                                        "input_b.mix",
                                                                        "input_b.data",
                                                                        "label",
                                                                        "loss",
                                                                        "top1",
                                                                        "top5",
                                                                        "loss_sum",
                                                                        "top1_sum",
                                                                        "top5_sum",
                                                                        "predicted_label",
                                                                        "learning_rate",
                                                                        "loss_scale",
                                                                        "label_smoothing",
                                                                        "batch_size",
                                                                        "batch_size_last_train",
                                                                        "batch_size_last_val",
                                                                        "momentum",
                                                                        "weight_decay",
                                                                        "beta1",
                                                                        "beta2",
                                                                        "epsilon",
                                                                        "bias_correction1",
                                                                        "bias_correction2",
                                                                        "trust_coefficient",
                                                                        "gradient_factor",
                                                                        "nan_flag",
                                                                        "step",
                                                                        "clean_steps",
                                                                        "skipped_steps",
                                                                        "accumulated_samples",
                                                                        "dropout_seed",
                                                                        "dropout_counter",
                                                                        "sync_counters"};

/// Ids of what one call site owns.
struct OpTensors {
  std::vector<ParameterTensors> params;
  BnStats stats;
  std::vector<TensorId> saved;
  TensorId statistics = NO_TENSOR;
};

struct TensorTable {
  std::vector<OpTensors> ops;    ///< by call site
  std::vector<TensorId> values;  ///< by value; NO_TENSOR for the input and for views
  /// What evaluation has instead, which lives and is sized apart; in the linear layout the same tensors.
  std::vector<TensorId> inferred;
  std::vector<TensorId> recomputed;  ///< by value; NO_TENSOR for most
  std::vector<TensorId> grads;
  std::vector<TensorId> workspaces;  ///< by wired node; NO_TENSOR where none is needed
  TensorId raw_input = NO_TENSOR, norm_sums = NO_TENSOR;
};

/// Workspace of every node and variant, asked once for each distinct question.
class OfferBook {
 public:
  OfferBook(const CompileRequest& request, const Catalog& catalog)
      : request_(request), catalog_(catalog), dtype_(compute_dtype(request.config.precision)) {}

  int64_t workspace_bytes(const OpInstance& op, Pass pass, const std::vector<Shape>& shapes) {
    std::string key = cat(op.entry->spec->name(), ' ', static_cast<int>(pass), op.reads_network_input);
    for (const auto& [name, value] : op.attrs.items()) key += cat(' ', str(value));
    for (const ValueId value : op.inputs) key += shapes[static_cast<size_t>(value)].str();
    for (const bool needs : op.needs_dx) key += needs ? 'd' : '-';
    key += cat(' ', op.gradients, ' ', op.statistics);
    const auto [entry, is_new] = known_.try_emplace(std::move(key));
    if (is_new) {
      // Rules are enough for a plan; a run needs the kernels.
      TR_CHECK(
          request_.plan_only || op.entry->kernels[static_cast<size_t>(request_.target.backend)] != nullptr,
          NotSupportedError,
          cat(op.entry->spec->name(), " '", op.name, "': this build has no ",
              backend_name(request_.target.backend),
              " kernels for it; it can plan for that device, not run on it"));
      const Offer offer =
          catalog_.offer(*op.entry, instance_query(op, shapes, dtype_, request_.target), pass);
      TR_CHECK(offer.supported(), NotSupportedError,
               cat(op.entry->spec->name(), " '", op.name, "' ", pass_name(pass), ": ", offer.declined));
      entry->second = offer.workspace_bytes;
    }
    return entry->second;
  }

 private:
  const CompileRequest& request_;
  const Catalog& catalog_;
  DType dtype_;
  std::map<std::string, int64_t> known_;
};

/// Registers every tensor of the model in one variant's plan. The same calls in the same order for each
/// variant give the same ids.
class TensorRegistrar {
 public:
  TensorRegistrar(const Wiring& wiring, const ArchPlan& arch, const CompileRequest& request)
      : wiring_(wiring), arch_(arch), request_(request) {}

  /// `workspace_bytes`: of this variant, by wired node, −1 where no variant needs any. What only the other
  /// program uses is registered as that program's base variant has it, and so does not enlarge any slot.
  TensorTable run(MemoryPlan& plan, const std::array<std::vector<Shape>, NUM_VARIANTS>& of_variant,
                  Variant variant, const std::vector<int64_t>& workspace_bytes) const {
    const auto of = [&](Variant v) -> const std::vector<Shape>& {
      return of_variant[static_cast<size_t>(v)];
    };
    const std::vector<Shape>& shapes = of(variant);
    const std::vector<Shape>& trained = of(is_training(variant) ? variant : Variant::TRAIN_BASE);
    const std::vector<Shape>& evaluated = of(is_training(variant) ? Variant::VAL_BASE : variant);
    const bool share = request_.config.layout == Layout::LINEAR;
    TensorTable table;
    plan.alloc_baseline_dtensors({shapes[0]});
    alloc_of_operators(plan, trained, table);
    table.values = alloc_values(plan, share ? shapes : trained);
    table.inferred = share ? table.values : alloc_values(plan, evaluated);
    table.recomputed.assign(table.values.size(), NO_TENSOR);
    for (const ValueId value : wiring_.recomputed)
      table.recomputed[static_cast<size_t>(value)] = plan.alloc_feature(trained[static_cast<size_t>(value)]);
    for (const ValueId value : wiring_.grad_values)
      table.grads.push_back(plan.alloc_feature_grad(trained[static_cast<size_t>(value)]));
    if (request_.target.backend == BackendKind::CUDA)
      table.raw_input = plan.alloc_temp_int8(Shape(1, 1, 1, raw_label_bytes(request_) + shapes[0].numel()));
    alloc_workspaces(plan, workspace_bytes, table);
    if (request_.target.backend == BackendKind::CUDA && needs_norms(request_))
      table.norm_sums = plan.alloc_temp_int8(Shape(1, 1, 1, NORM_SUMS_BYTES));
    return table;
  }

 private:
  void alloc_of_operators(MemoryPlan& plan, const std::vector<Shape>& shapes, TensorTable& table) const {
    const DType dtype = compute_dtype(request_.config.precision);
    for (const OpInstance& op : wiring_.ops) {
      const OpQuery query = instance_query(op, shapes, dtype, request_.target);
      OpTensors tensors;
      for (const ParamSpec& param : op.entry->spec->params(query))
        tensors.params.push_back(plan.alloc_parameter(param.role, param.shape));
      if (const int64_t channels = op.entry->spec->state_channels(query); channels > 0)
        tensors.stats = plan.alloc_bn_stats(channels);
      for (const SavedSpec& saved : op.entry->spec->saved(query))
        tensors.saved.push_back(plan.alloc_transient(saved.shape, saved.region));
      // The writer's tensor.
      if (op.statistics > 0 && op.entry->spec->statistics_rows(query) > 0)
        tensors.statistics = plan.alloc_temp_fp32(Shape(1, 1, op.statistics, query.y.c()));
      table.ops.push_back(std::move(tensors));
    }
  }

  std::vector<TensorId> alloc_values(MemoryPlan& plan, const std::vector<Shape>& shapes) const {
    std::vector<TensorId> ids;
    for (ValueId value = 0; value < arch_.num_values(); ++value) {
      const bool has_tensor = value != 0 && arch_.storage[static_cast<size_t>(value)] == value;
      ids.push_back(has_tensor ? plan.alloc_feature(shapes[static_cast<size_t>(value)]) : NO_TENSOR);
    }
    return ids;
  }

  /// One for each node, which packing lays where there is room just then; in the linear layout one for all.
  void alloc_workspaces(MemoryPlan& plan, const std::vector<int64_t>& bytes, TensorTable& table) const {
    const auto allocate = [&](int64_t size) {
      return plan.alloc_temp_int8(Shape(1, 1, 1, std::max<int64_t>(size, 1)));
    };
    table.workspaces.assign(bytes.size(), NO_TENSOR);
    const bool share = request_.config.layout == Layout::LINEAR;
    const TensorId shared = share ? allocate(*std::max_element(bytes.begin(), bytes.end())) : NO_TENSOR;
    for (size_t n = 0; n < bytes.size(); ++n)
      if (bytes[n] >= 0) table.workspaces[n] = share ? shared : allocate(bytes[n]);
  }

  const Wiring& wiring_;
  const ArchPlan& arch_;
  const CompileRequest& request_;
};

TensorId id_of(const TensorRef& ref, const TensorTable& table, bool weights_in_16bit) {
  using Kind = TensorRef::Kind;
  const auto owner = static_cast<size_t>(ref.owner);
  const auto index = static_cast<size_t>(ref.index);
  switch (ref.kind) {
    case Kind::VALUE:
      return table.values.at(owner);
    case Kind::RECOMPUTED:
      return table.recomputed.at(owner);
    case Kind::GRAD:
      return table.grads.at(owner);
    case Kind::BASELINE:
      return ref.owner;
    case Kind::SAVED:
      return table.ops.at(owner).saved.at(index);
    case Kind::STATISTICS:
      return table.ops.at(owner).statistics;
    case Kind::STATE_PREV:
      return ref.index == 0 ? table.ops.at(owner).stats.prev_mean : table.ops.at(owner).stats.prev_var;
    case Kind::STATE_NEXT:
      return ref.index == 0 ? table.ops.at(owner).stats.next_mean : table.ops.at(owner).stats.next_var;
    case Kind::EQUIVALENT:
      return ref.index == 0 ? table.ops.at(owner).stats.eq_scale : table.ops.at(owner).stats.eq_bias;
    case Kind::PARAM:
    case Kind::PARAM_GRAD: {
      const ParameterTensors& param = table.ops.at(owner).params.at(index);
      const bool narrow = weights_in_16bit && param.compute_copy != NO_TENSOR;
      if (ref.kind == Kind::PARAM) return narrow ? param.compute_copy : param.master;
      return narrow ? param.grad_16bit : param.grad;
    }
  }
  throw Error(ErrorKind::ValueError, "compiler: unknown operand");
}

/// Where one pass writes gradients of parameters that train and of frozen ones, the latter become zero: no
/// norm counts them, and they cannot be what makes a step be skipped. What no pass writes is zero anyway.
void clear_frozen_gradients(ComputationGraph& graph, const Wiring& wiring, const TensorTable& table,
                            const CompileRequest& request) {
  GraphNode clear;
  for (const WiredNode& node : wiring.nodes) {
    const std::vector<bool>& frozen = wiring.ops[static_cast<size_t>(node.op)].frozen;
    for (const WiredOperand& operand : node.operands)
      if (operand.ref.kind == TensorRef::Kind::PARAM_GRAD && !frozen.empty() &&
          frozen[static_cast<size_t>(operand.ref.index)])
        clear.tensors.push_back(id_of(operand.ref, table, is_amp(request.config.precision)));
  }
  if (clear.tensors.empty()) return;
  clear.kind = NodeKind::RANGE;
  clear.range_op = RangeOp::RANGE_CLEAR;
  clear.name = range_op_name(clear.range_op);
  graph.part(GraphId::BACKWARD).push_back(std::move(clear));
}

ComputationGraph build_graph(const Wiring& wiring, const TensorTable& table, const CompileRequest& request) {
  ComputationGraph graph;
  for (size_t n = 0; n < wiring.nodes.size(); ++n) {
    const WiredNode& wired = wiring.nodes[n];
    GraphNode node;
    node.workspace = table.workspaces[n];
    node.op = wired.op;
    node.pass = wired.pass;
    node.name = cat(wiring.ops[static_cast<size_t>(wired.op)].name, ' ',
                    wired.recomputes ? pass_name(Pass::RECOMPUTE) : pass_name(wired.pass));
    for (const WiredOperand& operand : wired.operands) {
      const bool infers = wired.part == GraphId::INFERENCE && operand.ref.kind == TensorRef::Kind::VALUE;
      const TensorId id = infers ? table.inferred.at(static_cast<size_t>(operand.ref.owner))
                                 : id_of(operand.ref, table, is_amp(request.config.precision));
      TR_CHECK(id != NO_TENSOR, ValueError,
               cat("'", node.name, "' uses ", port_name(operand.use.port), '[', operand.use.index,
                   "], which has no tensor"));
      node.operands.push_back({operand.use.port, operand.use.index, id, operand.use.read, operand.use.write});
    }
    graph.part(wired.part).push_back(std::move(node));
  }
  clear_frozen_gradients(graph, wiring, table, request);
  return graph;
}

void name_workspaces(CompiledModel& model) {
  for (const Program program : {Program::TRAIN, Program::EVAL})
    for (const GraphNode* node : program_nodes(model.graph, program))
      if (node->workspace != NO_TENSOR)
        model.tensor_names[static_cast<size_t>(node->workspace)] =
            model.request.config.layout == Layout::LINEAR ? "workspace" : node->name + ".workspace";
}

/// Bytes by variant and wired node; −1 where no variant needs any.
std::vector<std::vector<int64_t>> workspace_table(const Wiring& wiring, const CompiledModel& model,
                                                  OfferBook& offers) {
  std::vector<std::vector<int64_t>> bytes(NUM_VARIANTS, std::vector<int64_t>(wiring.nodes.size(), 0));
  for (size_t v = 0; v < NUM_VARIANTS; ++v) {
    const std::vector<GraphId> parts = program_parts(program_of(static_cast<Variant>(v)));
    for (size_t n = 0; n < wiring.nodes.size(); ++n) {
      const WiredNode& node = wiring.nodes[n];
      if (std::find(parts.begin(), parts.end(), node.part) != parts.end())
        bytes[v][n] =
            offers.workspace_bytes(wiring.ops[static_cast<size_t>(node.op)], node.pass, model.shapes[v]);
    }
  }
  for (size_t n = 0; n < wiring.nodes.size(); ++n) {
    const bool none = std::all_of(bytes.begin(), bytes.end(), [&](const auto& row) { return row[n] == 0; });
    if (none)
      for (auto& row : bytes) row[n] = -1;
  }
  return bytes;
}

/// Parameters and statistics by name, and a name for every tensor id.
void name_tensors(CompiledModel& model, const Wiring& wiring, const TensorTable& table) {
  std::vector<std::string>& names = model.tensor_names;
  names.assign(static_cast<size_t>(model.plans[0].num_tensors()), "");
  const auto give = [&](TensorId id, std::string name) {
    if (id != NO_TENSOR) names[static_cast<size_t>(id)] = std::move(name);
  };
  for (size_t i = 0; i < BASELINE_NAMES.size(); ++i) names[i] = BASELINE_NAMES[i];
  for (size_t i = 0; i < wiring.ops.size(); ++i) {
    const OpInstance& op = wiring.ops[i];
    const OpQuery query = model.query(static_cast<int>(i), Variant::TRAIN_BASE);
    const std::vector<ParamSpec> specs = op.entry->spec->params(query);
    for (size_t p = 0; p < specs.size(); ++p) {
      const std::string name = parameter_name(op, specs[p]);
      const ParameterTensors& t = table.ops[i].params[p];
      give(t.master, name);
      give(t.ema, name + ".ema");
      give(t.ema_16bit, name + ".ema_16bit");
      give(t.compute_copy, name + ".copy_16bit");
      give(t.grad, name + ".grad");
      give(t.grad_16bit, name + ".grad_16bit");
      give(t.accumulated, name + ".accumulated");
      give(t.first_moment, name + ".first_moment");
      give(t.second_moment, name + ".second_moment");
      give(t.norm, name + ".norm");
      model.parameters.push_back({name, specs[p], t, !op.frozen.empty() && op.frozen[p]});
    }
    if (const int64_t channels = op.entry->spec->state_channels(query); channels > 0) {
      const BnStats& stats = table.ops[i].stats;
      give(stats.prev_mean, op.name + ".running_mean");
      give(stats.prev_var, op.name + ".running_var");
      give(stats.next_mean, op.name + ".next_mean");
      give(stats.next_var, op.name + ".next_var");
      give(stats.eq_bias, op.name + ".eq_bias");
      give(stats.eq_scale, op.name + ".eq_scale");
      model.statistics.push_back({op.name, channels, op.attrs.number("momentum"), op.attrs.number("epsilon"),
                                  stats, table.ops[i].params.at(0), table.ops[i].params.at(1)});
      model.statistics.back().frozen = op.attrs.flag("frozen");
    }
    const std::vector<SavedSpec> saved = op.entry->spec->saved(query);
    for (size_t s = 0; s < saved.size(); ++s)
      give(table.ops[i].saved[s], cat(op.name, ".saved.", saved[s].name));
    give(table.ops[i].statistics, op.name + ".statistics");
  }
  const auto value_name = [&](ValueId value) {
    return value == 0 ? std::string("input") : model.arch.layers[static_cast<size_t>(value) - 1].name;
  };
  for (size_t value = 0; value < table.values.size(); ++value) {
    give(table.inferred[value], value_name(static_cast<ValueId>(value)) + ".out.inference");
    give(table.values[value], value_name(static_cast<ValueId>(value)) + ".out");
  }
  for (size_t value = 0; value < table.values.size(); ++value)
    give(table.recomputed[value], value_name(static_cast<ValueId>(value)) + ".out.recomputed");
  for (size_t g = 0; g < table.grads.size(); ++g)
    give(table.grads[g], cat(value_name(wiring.grad_values[g]), ".out.grad.", g));
  give(model.raw_input, "raw_input");
  give(model.norm_sums, "norm_sums");
  name_workspaces(model);
}

/// Parameters are the model's, not the input's: a layer whose weights would follow the resolution (fc after
/// flatten) cannot serve variants of different resolutions.
void check_parameter_shapes(const CompiledModel& model, const Wiring& wiring, DType dtype) {
  for (const OpInstance& op : wiring.ops) {
    const auto params = [&](size_t variant) {
      return op.entry->spec->params(instance_query(op, model.shapes[variant], dtype, model.request.target));
    };
    const std::vector<ParamSpec> base = params(0);
    for (size_t v = 1; v < NUM_VARIANTS && !base.empty(); ++v) {
      if (model.request.inputs[v].h() == model.request.inputs[0].h() &&
          model.request.inputs[v].w() == model.request.inputs[0].w())
        continue;
      const std::vector<ParamSpec> other = params(v);
      for (size_t p = 0; p < base.size(); ++p)
        TR_CHECK(other[p].shape == base[p].shape, ShapeError,
                 cat(op.entry->spec->name(), " '", op.name, "': ", base[p].name, " is ", base[p].shape,
                     " for input ", model.request.inputs[0], " and ", other[p].shape, " for ",
                     model.request.inputs[v], "; use one resolution, or gap before flatten"));
    }
  }
}

void check_request(const CompileRequest& request) {
  TR_CHECK(request.target.ranks >= 1, ValueError,
           cat("target: ", request.target.ranks, " ranks; at least 1"));
  TR_CHECK(request.classes >= 1, ValueError, cat("model: ", request.classes, " classes; at least 1"));
  const OptimizerKind kind = request.config.optimizer;
  TR_CHECK(!request.decoupled_decay || (kind != OptimizerKind::ADAM && !is_lars(kind)), ValueError,
           cat("optimizer ", optimizer_name(kind), ": decoupled_decay is for sgd, momentum and nesterov",
               kind == OptimizerKind::ADAM ? "; use adamw" : ""));
  const Shape& base = request.inputs[0];
  for (size_t v = 0; v < NUM_VARIANTS; ++v)
    TR_CHECK(request.inputs[v].c() == base.c(), ShapeError,
             cat("variant ", variant_name(static_cast<Variant>(v)), " has input ", request.inputs[v],
                 ", train_base ", base, "; all variants have the same channels"));
  if (request.plan_only) return;
  TR_CHECK(request.target.backend == BackendKind::CPU || request.target.ranks == 1, NotSupportedError,
           cat("device 'cuda': ", request.target.ranks,
               " ranks can be planned, this backend runs 1; use ranks: 1"));
}

/// Operations that take a device as long as moving a byte: tensor cores against HBM on a Hopper card, FP32
/// units likewise, AVX2 cores against their memory. They only rank what may be computed again.
double flops_per_byte(const CompileRequest& request) {
  if (request.target.backend == BackendKind::CPU) return 15.0;
  return is_amp(request.config.precision) || request.target.allow_tf32 ? 120.0 : 12.0;
}

/// Phases 2 to 4, again where a choice of recomputation changes what exists.
class Layouter {
 public:
  Layouter(CompiledModel& model, Wiring wiring, OfferBook& offers)
      : model_(model), request_(model.request), plain_(std::move(wiring)), offers_(offers) {}

  void run() {
    register_tensors(plain_);
    const std::optional<RecomputeChoice> first = choose();
    if (!first) return finish(plain_);
    const int64_t budget = request_.budget_bytes;
    RecomputeChoice choice = *first;
    int64_t least = std::numeric_limits<int64_t>::max();  // of what was laid out
    for (int64_t limit = budget - persistent_bytes_;;) {
      Wiring wiring = plain_;
      insert_recomputation(wiring, choice.values, query());
      register_tensors(wiring);
      finish(wiring);
      summarize(choice);
      const int64_t total = model_.plans[0].total_bytes();
      if (budget == 0 || total <= budget) return;
      least = std::min(least, total);
      if (request_.recompute == Recompute::NONE || choice.peak_bytes > limit) refuse(least);
      // Packing needs a little more than is alive at once: the limit is that much lower.
      limit = std::min(limit - (total - budget), choice.peak_bytes - 1);
      choice = planner_->within(limit, request_.recompute == Recompute::CHEAP);
    }
  }

 private:
  std::function<OpQuery(int)> query() {
    return [this](int op) {
      return instance_query(plain_.ops[static_cast<size_t>(op)], model_.shapes[0],
                            compute_dtype(request_.config.precision), request_.target);
    };
  }

  /// 2. The tensors of each variant's plan, each slot the largest over the variants.
  void register_tensors(const Wiring& wiring) {
    const std::vector<std::vector<int64_t>> workspaces = workspace_table(wiring, model_, offers_);
    const TensorRegistrar registrar(wiring, model_.arch, request_);
    model_.plans.clear();
    for (size_t v = 0; v < NUM_VARIANTS; ++v) {
      model_.plans.emplace_back(request_.config);
      table_ = registrar.run(model_.plans.back(), model_.shapes, static_cast<Variant>(v), workspaces[v]);
    }
    model_.raw_input = table_.raw_input;
    model_.norm_sums = table_.norm_sums;
    agree_on_slots(model_.plans);
  }

  void finish(const Wiring& wiring) {
    // 3. The graphs of training and inference.
    model_.parameters.clear();
    model_.statistics.clear();
    model_.graph = build_graph(wiring, table_, request_);
    model_.ops = wiring.ops;
    name_tensors(model_, wiring, table_);
    append_range_nodes(model_);

    // 4. Lifetimes and layout.
    model_.uses = transient_uses(model_);
    if (request_.config.layout == Layout::PACKED) {
      const TransientPlacement placement = place_transients(model_.plans[0], model_.uses);
      for (MemoryPlan& plan : model_.plans) plan.finalize(placement);
    } else {
      for (MemoryPlan& plan : model_.plans) plan.finalize();
    }
    validate_variant_agreement(model_.plans);
  }

  /// Nothing where nothing is to be computed again.
  std::optional<RecomputeChoice> choose() {
    for (const DTensor& tensor : model_.plans[0].tensors())
      if (!region_traits(tensor.region).transient) persistent_bytes_ += tensor.slot_bytes;
    const bool has_budget = request_.budget_bytes > 0;
    const bool wanted = request_.recompute == Recompute::CHEAP || request_.recompute == Recompute::AUTO;
    if (!has_budget && !wanted) return std::nullopt;
    TR_CHECK(
        request_.config.layout == Layout::PACKED, RecipeError,
        "memory.layout: linear gives every tensor bytes of its own, which recomputation does not lessen; "
        "use packed, or neither memory.budget nor memory.recompute");
    start_planner();
    const bool cheap = request_.recompute == Recompute::CHEAP;
    if (has_budget && request_.recompute != Recompute::NONE)
      return planner_->within(request_.budget_bytes - persistent_bytes_, cheap);
    if (has_budget) return planner_->nothing();
    return planner_->fewest_bytes(cheap ? RecomputePlanner::ANY_TIME : MOST_RECOMPUTATION, cheap);
  }

  void start_planner() {
    RecomputeProblem problem;
    problem.wiring = &plain_;
    problem.arch = &model_.arch;
    problem.query = query();
    const auto tensor = [this](const TensorRef& ref) -> const DTensor& {
      return model_.plans[0].tensor(id_of(ref, table_, is_amp(request_.config.precision)));
    };
    problem.slot_bytes = [tensor](const TensorRef& ref) { return tensor(ref).slot_bytes; };
    problem.is_transient = [tensor](const TensorRef& ref) {
      return region_traits(tensor(ref).region).transient;
    };
    problem.workspace_bytes = [this](int op, Pass pass) {
      const int64_t bytes =
          offers_.workspace_bytes(plain_.ops[static_cast<size_t>(op)], pass, model_.shapes[0]);
      return bytes == 0 ? 0
                        : slot_bytes(Shape(1, 1, 1, bytes), DType::INT8, Region::T_TEMP_INT8,
                                     request_.config.backend);
    };
    if (model_.raw_input != NO_TENSOR)
      problem.always_bytes = model_.plans[0].tensor(model_.raw_input).slot_bytes;
    problem.flops_per_byte = flops_per_byte(request_);
    planner_.emplace(problem);
  }

  void summarize(const RecomputeChoice& choice) {
    model_.recomputation = {choice.values,     choice.added.bytes,  choice.added.flops, choice.step.bytes,
                            choice.step.flops, choice.added_time(), choice.peak_bytes};
  }

  [[noreturn]] void refuse(int64_t least) const {
    const std::string_view how = request_.recompute == Recompute::NONE ? "without recomputation"
                                 : request_.recompute == Recompute::CHEAP
                                     ? "with the cheap recomputation that was found"
                                     : "with the recomputation that was found";
    throw Error(ErrorKind::RecipeError,
                cat("memory.budget: ", request_.budget_bytes, " bytes; this training needs ", least, ' ', how,
                    ", ", persistent_bytes_,
                    " of them for parameters, moments and other lasting tensors; give it at least that, or "
                    "lower train.batch_size or the resolution"));
  }

  CompiledModel& model_;
  const CompileRequest& request_;
  const Wiring plain_;
  OfferBook& offers_;
  TensorTable table_;
  int64_t persistent_bytes_ = 0;
  std::optional<RecomputePlanner> planner_;
};

}  // namespace

std::string_view recompute_name(Recompute recompute) {
  constexpr std::array<std::string_view, 4> NAMES{"as_needed", "none", "cheap", "auto"};
  return NAMES.at(static_cast<size_t>(recompute));
}

int64_t raw_label_bytes(const CompileRequest& request) {
  int64_t samples = 0;
  for (const Shape& input : request.inputs) samples = std::max(samples, input.n());
  const int64_t words = samples + (request.mix_samples ? BATCH_MIX_WORDS : 0);
  return round_up(words * static_cast<int64_t>(sizeof(int32_t)), ARENA_ALIGNMENT_BYTES);
}

std::vector<GraphId> program_parts(Program program) {
  if (program == Program::EVAL) return {GraphId::INPUT, GraphId::INFERENCE, GraphId::METRICS};
  return {GraphId::INPUT,     GraphId::ZERO_GRAD,    GraphId::FORWARD,  GraphId::BACKWARD,
          GraphId::GRAD_CAST, GraphId::GRAD_AVERAGE, GraphId::EXCHANGE, GraphId::WATCH,
          GraphId::OPTIMIZER, GraphId::WEIGHT_CAST,  GraphId::EMA,      GraphId::STATISTICS,
          GraphId::METRICS};
}

std::vector<GraphId> step_parts(const CompiledModel& model, Variant variant, StepKind kind) {
  const PlanConfig& config = model.request.config;
  const bool exists = kind == StepKind::WHOLE ||
                      (kind == StepKind::MICRO_BATCH && is_training(variant) && config.accumulates) ||
                      (kind == StepKind::AVERAGED && !is_training(variant) && config.has_ema);
  TR_CHECK(exists, ValueError,
           cat("variant ", variant_name(variant), " has no ", step_kind_name(kind),
               " step; a micro-batch step is of training with accumulation, an averaged one of validation "
               "with EMA"));
  if (kind != StepKind::MICRO_BATCH) return program_parts(program_of(variant));
  return {GraphId::INPUT,     GraphId::ZERO_GRAD,  GraphId::FORWARD,          GraphId::BACKWARD,
          GraphId::GRAD_CAST, GraphId::ACCUMULATE, GraphId::MICRO_STATISTICS, GraphId::METRICS};
}

std::vector<const GraphNode*> program_nodes(const ComputationGraph& graph, Program program) {
  std::vector<const GraphNode*> nodes;
  for (const GraphId part : program_parts(program))
    for (const GraphNode& node : graph.part(part)) nodes.push_back(&node);
  return nodes;
}

OpQuery CompiledModel::query(int op, Variant variant) const {
  return instance_query(ops.at(static_cast<size_t>(op)), shapes[static_cast<size_t>(variant)],
                        compute_dtype(request.config.precision), request.target);
}

TensorId CompiledModel::averaged(TensorId id) const {
  for (const Parameter& parameter : parameters) {
    if (parameter.tensors.master == id) return parameter.tensors.ema;
    if (parameter.tensors.compute_copy == id) return parameter.tensors.ema_16bit;
  }
  return id;
}

int64_t CompiledModel::num_parameters() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.spec.shape.numel();
  return sum;
}

CompiledModel compile(const CompileRequest& given, std::shared_ptr<const Catalog> catalog) {
  CompiledModel model;
  model.catalog = std::move(catalog);
  model.request = given;
  model.request.config.backend = given.target.backend;
  const CompileRequest& request = model.request;
  check_request(request);

  // 1. The tensors of every layer for every variant.
  const DType dtype = compute_dtype(request.config.precision);
  model.arch = fuse(without_idle_layers(lower(request.model, *model.catalog), request.inputs), *model.catalog,
                    request.inputs[0], dtype, request.target);
  for (size_t v = 0; v < NUM_VARIANTS; ++v) {
    const std::vector<Shape> logical = infer_shapes(model.arch, request.inputs[v]);
    const Shape& logits = logical[static_cast<size_t>(model.arch.output)];
    TR_CHECK(logits == Shape(request.inputs[v].n(), 1, 1, request.classes), ShapeError,
             cat("model: its output is ", logits, " for input ", request.inputs[v], ", ", request.classes,
                 " classes need ", Shape(request.inputs[v].n(), 1, 1, request.classes),
                 "; let the last layer be fc(classes) after gap or flatten"));
    model.shapes[v] = storage_shapes(model.arch, logical);
    check_flattened_inputs(model.arch, logical, model.shapes[v]);
  }
  Wiring wiring =
      wire(model.arch, *model.catalog, model.shapes[0], dtype, request.target, request.mix_samples,
           request.config.bn_folded, {request.freeze, request.freeze_statistics});

  check_parameter_shapes(model, wiring, dtype);

  OfferBook offers(request, *model.catalog);
  Layouter(model, std::move(wiring), offers).run();

  // 5. Captures shared between variants.
  model.atlas = GraphAtlas(request.inputs);
  for (MemoryPlan& plan : model.plans) plan.mark_compiled();
  return model;
}

}  // namespace tr
