#include "range_ops/range_ops_cuda.h"

#include <span>
#include <tuple>

#include "ops/support/cuda.h"
#include "range_ops/input_buffer.h"
#include "range_ops/memory_cuda.h"
#include "range_ops/training_tail.h"
#include "range_ops/update_cuda.h"
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
    default:
      return UpdateRule::ADAM;
  }
}

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

  RangeCall bind(const GraphNode& node) const {
    const RangeOp op = node.range_op;
    if (is_update(op)) return bind_update(node);
    switch (op) {
      case RangeOp::RANGE_CLEAR:
        return bind_clear(node);
      case RangeOp::RANGE_D2D_COPY:
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
      case RangeOp::RANGE_ACCUM_METRICS:
        return bind_metrics(node);
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

  /// Everything after it.
  RangeCall bind_tail_update(const TrainingTail& tail) const {
    UpdateTask task = update_task(*tail.updates[0]);
    std::string name(range_op_name(tail.updates[1]->range_op));
    for (size_t i = 0; i < tail.updates.size(); ++i) {
      const GraphNode& update = *tail.updates[i];
      UpdateBlock& block = task.blocks[i] = update_block(update);
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
    if (tail.scaling != nullptr) task.scalars.gradient_factor = scalar(GRADIENT_FACTOR);
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
    return update_call(std::move(name), task);
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

  static void require_twins(const GraphNode& node, const Bytes& wide, const Bytes& narrow) {
    TR_CHECK(wide.bytes == 2 * narrow.bytes, ShapeError,
             cat(range_op_name(node.range_op), ": ", wide.bytes, " bytes of FP32 are not twice ",
                 narrow.bytes, " of 16 bits"));
  }

  std::pair<Bytes, Bytes> copied_ranges(const GraphNode& node) const {
    const Bytes from = range(node.in.at(0)), to = range(node.out.at(0));
    TR_CHECK(from.bytes == to.bytes, ShapeError,
             cat("RANGE_D2D_COPY: ", from.bytes, " bytes do not fit ", to.bytes));
    return {from, to};
  }

  WatchScalars watch_scalars() const {
    WatchScalars scalars;
    scalars.sync_counter = counter(SYNC_COUNTERS);
    scalars.nan_flag = counter(NAN_FLAG);
    scalars.loss_scale = scalar(LOSS_SCALE);
    scalars.clean_steps = counter(CLEAN_STEPS);
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
    const Bytes weights = range(node.out.at(0));
    UpdateBlock block;
    block.weights = weights.floats();
    block.gradients = range(node.in.at(0)).data;
    block.elements = weights.elements();
    if (rule != UpdateRule::SGD) block.first_moment = range(node.out.at(1)).floats();
    if (rule == UpdateRule::ADAM) block.second_moment = range(node.out.at(2)).floats();
    block.decays = decays(node.range_op);
    block.decoupled = node.range_op == RangeOp::RANGE_UPDATE_WEIGHT_ADAMW;
    return block;
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
    metrics.labels = counter(LABEL);
    metrics.samples = plan_.tensor(LABEL).shape.n();
    constexpr BaselineId MEANS[] = {LOSS, TOP1, TOP5}, SUMS[] = {LOSS_SUM, TOP1_SUM, TOP5_SUM};
    for (size_t i = 0; i < MetricSums::METRICS; ++i) {
      metrics.means[i] = scalar(MEANS[i]);
      metrics.sums[i] = scalar(SUMS[i]);
    }
    return metrics;
  }

  RangeCall update_call(std::string name, const UpdateTask& task) const {
    int64_t bytes = 2 * task.copy.bytes + task.metrics.samples * static_cast<int64_t>(sizeof(int32_t));
    for (const UpdateBlock& block : task.blocks) {
      int64_t per_element = 8 + (block.gradients_16bit ? 2 : 4) + (block.copy != nullptr ? 2 : 0);
      for (const float* moment : {block.first_moment, block.second_moment})
        per_element += moment != nullptr ? 8 : 0;
      bytes += block.elements * per_element;
    }
    return named_call(std::move(name), bytes, [task, stream = stream_] { launch_update(task, stream); });
  }

  RangeCall bind_update(const GraphNode& node) const {
    UpdateTask task = update_task(node);
    task.blocks[0] = update_block(node);
    if (task.blocks[0].elements == 0) return {};
    return update_call(std::string(range_op_name(node.range_op)), task);
  }

  RangeCall bind_metrics(const GraphNode& node) const {
    UpdateTask task = update_task(node);
    task.rule = UpdateRule::SGD;
    task.metrics = metric_sums();
    return update_call(std::string(range_op_name(node.range_op)), task);
  }

  RangeCall bind_clear(const GraphNode& node) const {
    const Bytes out = range(node.out.at(0));
    if (out.bytes == 0) return {};
    std::string name(range_op_name(node.range_op));
    return {name,
            [out, name, stream = stream_] {
              check_cuda(cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.bytes), stream), name);
            },
            out.bytes};
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
      calls.push_back(binder.bind_tail_update(*tail));
      i += tail->nodes;
      continue;
    }
    if (RangeCall call = binder.bind(*nodes[i]); call.call) calls.push_back(std::move(call));
    ++i;
  }
  return calls;
}

}  // namespace tr
