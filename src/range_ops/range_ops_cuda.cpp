#include "range_ops/range_ops_cuda.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>

#include "ops/support/cuda.h"
#include "range_ops/accumulate_cuda.h"
#include "range_ops/ema_cuda.h"
#include "range_ops/fold_cuda.h"
#include "range_ops/input_buffer.h"
#include "range_ops/memory_cuda.h"
#include "range_ops/norms_cuda.h"
#include "range_ops/training_tail.h"
#include "range_ops/update_cuda.h"
#include "range_ops/update_segments.h"
#include "range_ops/watch_cuda.h"

namespace tr {

namespace {

/// A region range in the arena.
struct Bytes {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  float* floats() const { return reinterpret_cast<float*>(data); }
  int64_t elements() const { return bytes / static_cast<int64_t>(sizeof(float)); }
};

UpdateRule rule_of(RangeOp op) {
  switch (op) {
    case RangeOp::RANGE_UPDATE_BIAS_SGD:
    case RangeOp::RANGE_UPDATE_WEIGHT_SGD:
      return UpdateRule::SGD;
    case RangeOp::RANGE_UPDATE_BIAS_MOMENTUM:
    case RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM:
      return UpdateRule::MOMENTUM;
    case RangeOp::RANGE_UPDATE_BIAS_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV:
      return UpdateRule::NESTEROV;
    case RangeOp::RANGE_UPDATE_BIAS_LARS:
    case RangeOp::RANGE_UPDATE_WEIGHT_LARS:
      return UpdateRule::LARS;
    case RangeOp::RANGE_UPDATE_BIAS_LARS_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_LARS_NESTEROV:
      return UpdateRule::LARS_NESTEROV;
    default:
      return UpdateRule::ADAM;
  }
}

static_assert(2 * sizeof(double) * NormTask::MOST_SOURCES * TRUST_PIECES <= NORM_SUMS_BYTES);
static_assert(2 * sizeof(double) * MOST_CLIP_SOURCES * CLIP_PIECES <= NORM_SUMS_BYTES);

bool decays(RangeOp op) { return op >= RangeOp::RANGE_UPDATE_WEIGHT_SGD; }

/// One kernel can do both updates.
bool has_one_rule(const TrainingTail& tail) {
  return rule_of(tail.updates[0]->range_op) == rule_of(tail.updates[1]->range_op);
}

bool is_host_copy(RangeOp op) { return op <= RangeOp::RANGE_H2D_COPY_DTENSOR; }

template <typename Launch>
RangeCall named_call(std::string name, int64_t bytes, Launch launch) {
  return {name,
          [launch, name] {
            launch();
            check_cuda(cudaGetLastError(), name);
          },
          bytes};
}

class RangeBinder {
 public:
  RangeBinder(const CompiledModel& model, const MemoryPlan& plan, std::byte* base, InputBuffer buffer,
              cudaStream_t stream)
      : model_(model), plan_(plan), base_(base), buffer_(buffer), stream_(stream) {}

  /// A node that stands alone.
  std::vector<RangeCall> bind_node(const GraphNode& node) const {
    if (is_update(node.range_op)) return bind_update(node);
    if (node.range_op == RangeOp::RANGE_TRUST_RATIOS)
      return bind_trust(node, range(node.in.at(0)), false, false);
    std::vector<RangeCall> calls;
    if (RangeCall call = bind(node); call.call) calls.push_back(std::move(call));
    return calls;
  }

  /// What takes one call.
  RangeCall bind(const GraphNode& node) const {
    const RangeOp op = node.range_op;
    switch (op) {
      case RangeOp::RANGE_CLEAR:
        return bind_clear(node);
      case RangeOp::RANGE_D2D_COPY:
      case RangeOp::RANGE_SEMA_SWITCH:
        return bind_copy(node);
      case RangeOp::RANGE_CAST_FP32_TO_FP16:
      case RangeOp::RANGE_CAST_FP16_TO_FP32:
        return bind_cast(node);
      case RangeOp::RANGE_CHECK_NAN:
        return bind_check(node);
      case RangeOp::RANGE_GRAD_SCALING:
        return bind_scaling(node);
      case RangeOp::RANGE_ADVANCE_SCALARS:
        return bind_advance(node);
      case RangeOp::RANGE_CLIP_NORM:
        return bind_clip(node);
      case RangeOp::RANGE_ACCUM_METRICS:
        return bind_metrics(node);
      case RangeOp::RANGE_EMA_PARAM_UPDATE:
        return bind_ema(node);
      case RangeOp::RANGE_GRAD_ACCUMULATE:
      case RangeOp::RANGE_GRAD_AVERAGE:
        return bind_accumulate(node);
      case RangeOp::RANGE_FOLD_BN:
        return bind_fold(node);
      default:
        break;
    }
    throw Error(ErrorKind::NotSupportedError, is_collective(op)
                                                  ? cat("cuda backend runs one rank and does not offer ",
                                                        range_op_name(op), "; use 1 rank, or device: cpu")
                                                  : cat("cuda backend does not offer ", range_op_name(op)));
  }

  /// Everything up to the advancing of scalars.
  RangeCall bind_tail_watch(const TrainingTail& tail) const {
    WatchTask task;
    task.checks = task.advances = true;
    task.adapts_scale = tail.scaling != nullptr;
    task.scalars = watch_scalars();
    if (task.adapts_scale) task.scalars.gradient_factor = scalar(GRADIENT_FACTOR);
    Bytes checked = range(tail.check->in.at(0));
    std::string name = "RANGE_CHECK_NAN";
    int64_t bytes = checked.bytes;
    if (tail.gradient_cast != nullptr) {
      const Bytes wide = range(tail.gradient_cast->out.at(0)), narrow = range(tail.gradient_cast->in.at(0));
      require_twins(*tail.gradient_cast, wide, narrow);
      // What the cast would write ends the checked range; its 16-bit source is looked through in its place.
      checked.bytes = wide.data - checked.data;
      bytes = checked.bytes + narrow.bytes;
      task.ranges[1] = {narrow.data, narrow.bytes, sixteen_bits()};
    }
    task.ranges[0] = {checked.data, checked.bytes, DType::FP32};
    if (task.adapts_scale) name += " + RANGE_GRAD_SCALING";
    return named_call(name + " + RANGE_ADVANCE_SCALARS", bytes,
                      [task, stream = stream_] { launch_watch(task, stream); });
  }

  /// The factor of the gradients, which the watch has set where they are scaled.
  RangeCall bind_tail_clip(const TrainingTail& tail) const {
    Bytes checked = range(tail.check->in.at(0));
    NormTask task = norm_task(*tail.clip, CLIP_PIECES);
    if (tail.gradient_cast != nullptr) {
      checked.bytes = range(tail.gradient_cast->out.at(0)).data - checked.data;
      const Bytes narrow = range(tail.gradient_cast->in.at(0));
      add_source(task, narrow, true);
    }
    add_source(task, checked, false);
    return clip_call(task, tail.scaling != nullptr);
  }

  std::vector<RangeCall> bind_tail_trust(const TrainingTail& tail) const {
    const RegionRange& gradients = tail.trust->in.at(0);
    const bool narrow =
        tail.gradient_cast != nullptr && same_regions(tail.gradient_cast->out.at(0), gradients);
    return bind_trust(*tail.trust, range(narrow ? tail.gradient_cast->in.at(0) : gradients), narrow,
                      has_factor(tail));
  }

  /// Everything after it.
  std::vector<RangeCall> bind_tail_update(const TrainingTail& tail) const {
    UpdateTask task = update_task(*tail.updates[0]);
    std::vector<UpdatedSegment> segments;
    std::string name(range_op_name(tail.updates[1]->range_op));
    for (size_t i = 0; i < tail.updates.size(); ++i) {
      const GraphNode& update = *tail.updates[i];
      UpdateBlock& block = task.blocks[i] = update_block(update);
      append_segments(update, static_cast<int>(i), segments);
      if (tail.gradient_cast != nullptr && same_regions(tail.gradient_cast->out.at(0), update.in.at(0))) {
        block.gradients = range(tail.gradient_cast->in.at(0)).data;
        block.gradients_16bit = true;
      }
      if (tail.weight_cast != nullptr && same_regions(tail.weight_cast->in.at(0), update.out.at(0))) {
        const Bytes copy = range(tail.weight_cast->out.at(0));
        require_twins(*tail.weight_cast, range(update.out.at(0)), copy);
        block.copy = copy.data;
      }
    }
    if (has_factor(tail)) task.scalars.gradient_factor = scalar(GRADIENT_FACTOR);
    if (tail.weight_cast != nullptr) name += " + RANGE_CAST_FP32_TO_FP16";
    if (tail.statistics != nullptr) {
      const auto [from, to] = copied_ranges(*tail.statistics);
      task.copy = {from.data, to.data, to.bytes};
      name += " + RANGE_D2D_COPY";
    }
    if (tail.metrics != nullptr) {
      task.metrics = metric_sums();
      name += " + RANGE_ACCUM_METRICS";
    }
    return update_calls(name, task, segments);
  }

  std::vector<RangeCall> bind_update(const GraphNode& node) const {
    UpdateTask task = update_task(node);
    task.blocks[0] = update_block(node);
    std::vector<UpdatedSegment> segments;
    append_segments(node, 0, segments);
    if (segments.empty()) return {};
    return update_calls(std::string(range_op_name(node.range_op)), task, segments);
  }

  /// `gradients`: of the node's first range, or their 16-bit twins. `factor`: they are still to be multiplied
  /// with GRADIENT_FACTOR.
  std::vector<RangeCall> bind_trust(const GraphNode& node, const Bytes& gradients, bool narrow,
                                    bool factor) const {
    TrustScalars scalars;
    if (factor) scalars.gradient_factor = scalar(GRADIENT_FACTOR);
    scalars.coefficient = scalar(TRUST_COEFFICIENT);
    scalars.weight_decay = scalar(WEIGHT_DECAY);
    scalars.epsilon = scalar(EPSILON);
    const float* weights = range(node.in.at(1)).floats();
    std::vector<RangeCall> calls;
    const std::vector<UpdateSegment> segments = update_segments(node, model_, plan_);
    const auto element_bytes = static_cast<int64_t>(narrow ? sizeof(uint16_t) : sizeof(float));
    for (size_t first = 0; first < segments.size(); first += NormTask::MOST_SOURCES) {
      NormTask task = norm_task(node, TRUST_PIECES);
      int64_t bytes = 0;
      for (size_t i = first; i < std::min(segments.size(), first + NormTask::MOST_SOURCES); ++i) {
        const UpdateSegment& segment = segments[i];
        task.sources[task.num_sources++] = {gradients.data + segment.first * element_bytes, narrow,
                                            weights + segment.first, segment.elements,
                                            reinterpret_cast<float*>(at(segment.trust))};
        bytes += segment.elements * (element_bytes + static_cast<int64_t>(sizeof(float)));
      }
      calls.push_back(
          named_call(std::string(range_op_name(node.range_op)), bytes,
                     [task, scalars, stream = stream_] { launch_trust_ratios(task, scalars, stream); }));
    }
    return calls;
  }

 private:
  Bytes range(const RegionRange& regions) const {
    const auto [offset, bytes] = resolve_region_bounds(plan_, regions);
    return {base_ + offset, bytes};
  }
  std::byte* at(TensorId id) const { return base_ + plan_.tensor(id).offset; }
  float* scalar(BaselineId id) const { return reinterpret_cast<float*>(at(id)); }
  int32_t* counter(BaselineId id) const { return reinterpret_cast<int32_t*>(at(id)); }
  DType sixteen_bits() const { return compute_dtype(plan_.config().precision); }

  static bool has_factor(const TrainingTail& tail) { return tail.scaling != nullptr || tail.clip != nullptr; }

  /// Without sources yet.
  NormTask norm_task(const GraphNode& node, int pieces) const {
    NormTask task;
    task.pieces = pieces;
    task.compute_dtype = sixteen_bits();
    task.sums = reinterpret_cast<double*>(at(node.workspace));
    task.nan_flag = counter(NAN_FLAG);
    return task;
  }
  static void add_source(NormTask& task, const Bytes& gradients, bool narrow) {
    if (gradients.bytes == 0) return;
    const auto element_bytes = static_cast<int64_t>(narrow ? sizeof(uint16_t) : sizeof(float));
    NormSource& source = task.sources[task.num_sources++];
    source.gradients = gradients.data;
    source.gradients_16bit = narrow;
    source.elements = gradients.bytes / element_bytes;
  }
  RangeCall clip_call(const NormTask& task, bool scaled) const {
    int64_t bytes = 0;
    for (const NormSource& source : task.sources) bytes += source.elements * (source.gradients_16bit ? 2 : 4);
    return named_call("RANGE_CLIP_NORM", bytes,
                      [task, scaled, max_norm = static_cast<float>(model_.request.clip_norm),
                       factor = scalar(GRADIENT_FACTOR),
                       stream = stream_] { launch_clip_factor(task, max_norm, scaled, factor, stream); });
  }
  RangeCall bind_clip(const GraphNode& node) const {
    const Bytes gradients = range(node.out.at(0));
    NormTask task = norm_task(node, CLIP_PIECES);
    add_source(task, gradients, false);
    RangeCall factor = clip_call(task, false);
    return named_call(factor.name, factor.bytes + 2 * gradients.bytes,
                      [call = std::move(factor.call), gradients, factor = scalar(GRADIENT_FACTOR),
                       nan_flag = counter(NAN_FLAG), stream = stream_] {
                        call();
                        launch_scale_gradients(gradients.floats(), gradients.elements(), factor, nan_flag,
                                               stream);
                      });
  }

  static void require_twins(const GraphNode& node, const Bytes& wide, const Bytes& narrow) {
    TR_CHECK(wide.bytes == 2 * narrow.bytes, ShapeError,
             cat(range_op_name(node.range_op), ": ", wide.bytes, " bytes of FP32 are not twice ",
                 narrow.bytes, " of 16 bits"));
  }

  std::pair<Bytes, Bytes> copied_ranges(const GraphNode& node) const {
    const Bytes from = range(node.in.at(0)), to = range(node.out.at(0));
    TR_CHECK(from.bytes == to.bytes, ShapeError,
             cat(range_op_name(node.range_op), ": ", from.bytes, " bytes do not fit ", to.bytes));
    return {from, to};
  }

  WatchScalars watch_scalars() const {
    WatchScalars scalars;
    scalars.sync_counter = counter(SYNC_COUNTERS);
    scalars.nan_flag = counter(NAN_FLAG);
    scalars.loss_scale = scalar(LOSS_SCALE);
    scalars.clean_steps = counter(CLEAN_STEPS);
    scalars.growth_steps = static_cast<int32_t>(model_.request.loss_scale_growth_steps);
    scalars.step = counter(STEP);
    scalars.skipped_steps = counter(SKIPPED_STEPS);
    scalars.dropout_counter = counter(DROPOUT_COUNTER);
    scalars.learning_rate = scalar(LEARNING_RATE);
    scalars.bias_correction1 = scalar(BIAS_CORRECTION1);
    scalars.bias_correction2 = scalar(BIAS_CORRECTION2);
    scalars.beta1 = scalar(BETA1);
    scalars.beta2 = scalar(BETA2);
    scalars.schedule = model_.request.schedule;
    return scalars;
  }

  UpdateScalars update_scalars() const {
    UpdateScalars scalars;
    scalars.nan_flag = counter(NAN_FLAG);
    scalars.learning_rate = scalar(LEARNING_RATE);
    scalars.momentum = scalar(MOMENTUM);
    scalars.weight_decay = scalar(WEIGHT_DECAY);
    scalars.beta1 = scalar(BETA1);
    scalars.beta2 = scalar(BETA2);
    scalars.epsilon = scalar(EPSILON);
    scalars.bias_correction1 = scalar(BIAS_CORRECTION1);
    scalars.bias_correction2 = scalar(BIAS_CORRECTION2);
    return scalars;
  }

  UpdateBlock update_block(const GraphNode& node) const {
    const UpdateRule rule = rule_of(node.range_op);
    UpdateBlock block;
    block.weights = range(node.out.at(0)).floats();
    block.gradients = range(node.in.at(0)).data;
    if (rule != UpdateRule::SGD) block.first_moment = range(node.out.at(1)).floats();
    if (rule == UpdateRule::ADAM) block.second_moment = range(node.out.at(2)).floats();
    block.decays = decays(node.range_op);
    block.decoupled = node.range_op == RangeOp::RANGE_UPDATE_WEIGHT_ADAMW || node.decoupled_decay;
    return block;
  }

  void append_segments(const GraphNode& node, int block, std::vector<UpdatedSegment>& segments) const {
    for (const UpdateSegment& segment : update_segments(node, model_, plan_))
      segments.push_back(
          {block, segment.first, segment.elements,
           segment.trust == NO_TENSOR ? nullptr : reinterpret_cast<const float*>(at(segment.trust))});
  }

  /// Without blocks yet.
  UpdateTask update_task(const GraphNode& node) const {
    UpdateTask task;
    task.rule = rule_of(node.range_op);
    task.compute_dtype = sixteen_bits();
    task.scalars = update_scalars();
    return task;
  }

  MetricSums metric_sums() const {
    MetricSums metrics;
    metrics.labels = reinterpret_cast<const int32_t*>(at(for_buffer(INPUT_A_LABEL, buffer_)));
    metrics.samples = plan_.tensor(LABEL).shape.n();
    constexpr BaselineId MEANS[] = {LOSS, TOP1, TOP5}, SUMS[] = {LOSS_SUM, TOP1_SUM, TOP5_SUM};
    for (size_t i = 0; i < MetricSums::METRICS; ++i) {
      metrics.means[i] = scalar(MEANS[i]);
      metrics.sums[i] = scalar(SUMS[i]);
    }
    return metrics;
  }

  /// Updates of `segments`, as many calls as these take; the last does what else `task` has.
  std::vector<RangeCall> update_calls(const std::string& name, const UpdateTask& task,
                                      const std::vector<UpdatedSegment>& segments) const {
    std::vector<RangeCall> calls;
    size_t first = 0;
    for (; segments.size() - first > UpdateTask::MOST_SEGMENTS; first += UpdateTask::MOST_SEGMENTS) {
      UpdateTask part = task;
      part.copy = {};
      part.metrics = {};
      set_segments(part, std::span(segments).subspan(first, UpdateTask::MOST_SEGMENTS));
      calls.push_back(update_call(name, part));
    }
    UpdateTask last = task;
    set_segments(last, std::span(segments).subspan(first));
    calls.push_back(update_call(name, last));
    return calls;
  }
  static void set_segments(UpdateTask& task, std::span<const UpdatedSegment> segments) {
    std::copy(segments.begin(), segments.end(), task.segments);
    task.num_segments = static_cast<int>(segments.size());
  }

  RangeCall update_call(std::string name, const UpdateTask& task) const {
    int64_t bytes = 2 * task.copy.bytes + task.metrics.samples * static_cast<int64_t>(sizeof(int32_t));
    for (int s = 0; s < task.num_segments; ++s) {
      const UpdateBlock& block = task.blocks[task.segments[s].block];
      int64_t per_element = 8 + (block.gradients_16bit ? 2 : 4) + (block.copy != nullptr ? 2 : 0);
      for (const float* moment : {block.first_moment, block.second_moment})
        per_element += moment != nullptr ? 8 : 0;
      bytes += task.segments[s].elements * per_element;
    }
    return named_call(std::move(name), bytes, [task, stream = stream_] { launch_update(task, stream); });
  }

  RangeCall bind_metrics(const GraphNode& node) const {
    UpdateTask task = update_task(node);
    task.rule = UpdateRule::SGD;
    task.metrics = metric_sums();
    return update_call(std::string(range_op_name(node.range_op)), task);
  }

  RangeCall bind_clear(const GraphNode& node) const {
    if (!node.tensors.empty()) return bind_clear_tensors(node);
    const Bytes out = range(node.out.at(0));
    if (out.bytes == 0) return {};
    std::string name(range_op_name(node.range_op));
    return {name,
            [out, name, stream = stream_] {
              check_cuda(cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.bytes), stream), name);
            },
            out.bytes};
  }

  RangeCall bind_clear_tensors(const GraphNode& node) const {
    const std::vector<std::pair<int64_t, int64_t>> slots = resolve_slots(plan_, node.tensors);
    int64_t bytes = 0;
    for (const auto& slot : slots) bytes += slot.second;
    return named_call(
        std::string(range_op_name(node.range_op)), bytes, [slots, base = base_, stream = stream_] {
          for (const auto& [offset, size] : slots)
            check_cuda(cudaMemsetAsync(base + offset, 0, static_cast<size_t>(size), stream), "RANGE_CLEAR");
        });
  }

  RangeCall bind_copy(const GraphNode& node) const {
    Bytes from, to;
    if (node.from != NO_TENSOR) {
      from.data = at(for_buffer(node.from, buffer_));
      to = {at(node.to), plan_.tensor(node.to).data_bytes()};
    } else {
      std::tie(from, to) = copied_ranges(node);
    }
    if (to.bytes == 0) return {};
    const int32_t* nan_flag = node.only_when_clean ? counter(NAN_FLAG) : nullptr;
    return named_call(std::string(range_op_name(node.range_op)), 2 * to.bytes,
                      [=, stream = stream_] { launch_copy(from.data, to.data, to.bytes, nan_flag, stream); });
  }

  RangeCall bind_cast(const GraphNode& node) const {
    const bool narrows = node.range_op == RangeOp::RANGE_CAST_FP32_TO_FP16;
    const Bytes from = range(node.in.at(0)), to = range(node.out.at(0));
    const Bytes wide = narrows ? from : to, narrow = narrows ? to : from;
    require_twins(node, wide, narrow);
    if (wide.bytes == 0) return {};
    const DType dtype = sixteen_bits();
    return named_call(std::string(range_op_name(node.range_op)), wide.bytes + narrow.bytes,
                      [=, stream = stream_] {
                        if (narrows)
                          launch_narrow(wide.floats(), narrow.data, dtype, wide.elements(), stream);
                        else
                          launch_widen(narrow.data, wide.floats(), dtype, wide.elements(), stream);
                      });
  }

  RangeCall bind_check(const GraphNode& node) const {
    const Bytes checked = range(node.in.at(0));
    WatchTask task;
    task.checks = true;
    task.ranges[0] = {checked.data, checked.bytes, DType::FP32};
    task.scalars = watch_scalars();
    return watch_call(node, task, checked.bytes);
  }

  RangeCall bind_advance(const GraphNode& node) const {
    WatchTask task;
    task.advances = true;
    task.scalars = watch_scalars();
    return watch_call(node, task, 0);
  }

  RangeCall watch_call(const GraphNode& node, const WatchTask& task, int64_t bytes) const {
    return named_call(std::string(range_op_name(node.range_op)), bytes,
                      [task, stream = stream_] { launch_watch(task, stream); });
  }

  RangeCall bind_ema(const GraphNode& node) const {
    const auto [weights, averages] = copied_ranges(node);
    EmaTask task;
    task.weights = weights.floats();
    task.averages = averages.floats();
    task.elements = averages.elements();
    task.nan_flag = counter(NAN_FLAG);
    task.step = counter(STEP);
    task.spec = model_.request.ema;
    return named_call(std::string(range_op_name(node.range_op)), 3 * averages.bytes,
                      [task, stream = stream_] { launch_ema(task, stream); });
  }

  RangeCall bind_accumulate(const GraphNode& node) const {
    const bool averages = node.range_op == RangeOp::RANGE_GRAD_AVERAGE;
    const Bytes gradients = range(node.in.at(0)), sums = range(node.out.at(averages ? 1 : 0));
    TR_CHECK(gradients.bytes == sums.bytes, ShapeError,
             cat(range_op_name(node.range_op), ": ", gradients.bytes, " bytes do not fit ", sums.bytes));
    AccumulateTask task;
    task.gradients = gradients.floats();
    task.sums = sums.floats();
    task.elements = sums.elements();
    task.samples = static_cast<int32_t>(plan_.tensor(LABEL).shape.n());
    task.summed_samples = counter(ACCUMULATED_SAMPLES);
    task.dropout_counter = counter(DROPOUT_COUNTER);
    return named_call(std::string(range_op_name(node.range_op)), (averages ? 4 : 3) * sums.bytes,
                      [task, averages, stream = stream_] {
                        averages ? launch_average(task, stream) : launch_accumulate(task, stream);
                      });
  }

  RangeCall bind_fold(const GraphNode& node) const {
    const bool averaged = node.in.at(0).first == Region::E_BN_BIAS;
    const auto floats = [this](TensorId id) { return reinterpret_cast<float*>(at(id)); };
    const auto parameter = [&](const ParameterTensors& p) { return floats(averaged ? p.ema : p.master); };
    std::vector<FoldTask> tasks;
    for (const Statistics& s : model_.statistics)
      tasks.push_back({parameter(s.weight), parameter(s.bias), floats(s.tensors.prev_mean),
                       floats(s.tensors.prev_var), floats(s.tensors.eq_scale), floats(s.tensors.eq_bias),
                       s.channels, s.epsilon});
    return named_call(std::string(range_op_name(node.range_op)), 3 * range(node.out.at(0)).bytes,
                      [tasks = std::move(tasks), stream = stream_] {
                        for (const FoldTask& task : tasks) launch_fold(task, stream);
                      });
  }

  RangeCall bind_scaling(const GraphNode& node) const {
    const Bytes gradients = range(node.out.at(0));
    return named_call(std::string(range_op_name(node.range_op)), 2 * gradients.bytes,
                      [gradients, scalars = watch_scalars(), stream = stream_] {
                        launch_unscale(gradients.floats(), gradients.elements(), scalars, stream);
                      });
  }

  const CompiledModel& model_;
  const MemoryPlan& plan_;
  std::byte* base_;
  InputBuffer buffer_;
  cudaStream_t stream_;
};

void append(std::vector<RangeCall>& calls, std::vector<RangeCall> more) {
  std::move(more.begin(), more.end(), std::back_inserter(calls));
}

}  // namespace

std::vector<RangeCall> bind_ranges_cuda(const std::vector<const GraphNode*>& nodes,
                                        const CompiledModel& model, const MemoryPlan& plan, std::byte* base,
                                        InputBuffer buffer, cudaStream_t stream) {
  const RangeBinder binder(model, plan, base, buffer, stream);
  std::vector<RangeCall> calls;
  for (size_t i = 0; i < nodes.size();) {
    if (is_host_copy(nodes[i]->range_op)) {
      ++i;
      continue;
    }
    if (const auto tail = match_training_tail(std::span(nodes).subspan(i)); tail && has_one_rule(*tail)) {
      calls.push_back(binder.bind_tail_watch(*tail));
      if (tail->clip != nullptr) calls.push_back(binder.bind_tail_clip(*tail));
      if (tail->trust != nullptr) append(calls, binder.bind_tail_trust(*tail));
      append(calls, binder.bind_tail_update(*tail));
      if (tail->average != nullptr) calls.push_back(binder.bind(*tail->average));
      i += tail->nodes;
      continue;
    }
    append(calls, binder.bind_node(*nodes[i]));
    ++i;
  }
  return calls;
}

}  // namespace tr
