// The CUDA backend: a captured step is one executable graph, replayed by one launch.
#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/random_values.h"
#include "backend/factories.h"
#include "backend/poison.h"
#include "ops/support/cuda_graph.h"
#include "range_ops/input_buffer.h"
#include "range_ops/input_cuda.h"
#include "range_ops/range_ops_cuda.h"
#include "renaissance/graph/node_work.h"

namespace tr {

namespace {

/// What the libraries take beside the arena, when available memory is asked for ahead of them: their modules
/// are loaded as kernels are first used. Measured with all steps captured: 9 MB.
constexpr int64_t LIBRARY_BYTES = 64ll << 20;

InputBuffer other(InputBuffer buffer) { return buffer == InputBuffer::A ? InputBuffer::B : InputBuffer::A; }
size_t index_of_buffer(InputBuffer buffer) { return static_cast<size_t>(buffer); }

/// The epoch's last batch: nothing follows it in its pass.
bool ends_a_pass(Variant variant) {
  return variant == Variant::TRAIN_LAST || variant == Variant::TRAIN_LOWRES_LAST ||
         variant == Variant::VAL_LAST;
}

struct NamedCall {
  std::string name;
  Call call;
  NodeWork work;
};

/// What a step multiplies: its input, features, their gradients, and the parameters it computes with.
bool is_multiplied(Region region) {
  const auto within = [region](Region first, Region last) { return first <= region && region <= last; };
  return within(Region::W_BN_BIAS, Region::W_DEEP_CONV) || within(Region::A_FC_WEIGHT, Region::A_DEEP_CONV) ||
         region == Region::I_A_DATA || region == Region::I_B_DATA ||
         within(Region::F_FEATURE_FP32, Region::F_GRAD_SLOT_FP16);
}
bool is_parameter(Region region) { return region <= Region::A_DEEP_CONV; }

/// While it lives, algorithms are timed on random values in place of an arena's zeros, which draw less power
/// and so run faster than real data; afterwards they are zeros again. An arena that something was written to
/// keeps what it has.
class ValuesForTiming {
 public:
  ValuesForTiming(CudaContext& context, const MemoryPlan& plan, std::byte* arena, bool arena_holds_zeros)
      : context_(context), plan_(plan), arena_(arena) {
    if (arena_holds_zeros) context_.before_timing = [this] { fill(); };
  }
  /// The stream's next use reports what keeps it from clearing.
  ~ValuesForTiming() {
    context_.before_timing = nullptr;
    if (filled_) cudaMemsetAsync(arena_, 0, static_cast<size_t>(plan_.total_bytes()), context_.stream);
  }
  ValuesForTiming(const ValuesForTiming&) = delete;
  ValuesForTiming& operator=(const ValuesForTiming&) = delete;

 private:
  /// Weights are small, so that sums of products stay about as large as their terms.
  void fill() {
    constexpr float MOST_VALUE = 1.0f, MOST_PARAMETER = 1.0f / 32.0f;
    if (filled_) return;
    filled_ = true;
    for (const DTensor& tensor : plan_.tensors())
      if (is_multiplied(tensor.region))
        launch_random_values(tensor.dtype, arena_ + tensor.offset,
                             tensor.slot_bytes / dtype_bytes(tensor.dtype),
                             is_parameter(tensor.region) ? MOST_PARAMETER : MOST_VALUE, context_.stream);
    check_cuda(cudaGetLastError(), "values for timing");
  }

  CudaContext& context_;
  const MemoryPlan& plan_;
  std::byte* arena_;
  bool filled_ = false;
};

class CudaBackend : public Context {
 public:
  CudaBackend(std::shared_ptr<const CompiledModel> model, const ContextOptions& options)
      : model_(std::move(model)),
        options_(options),
        device_(model_->request.target),
        free_before_arena_(free_device_bytes()),
        arenas_(1, base_plan().total_bytes(), allocator_),
        label_bytes_(raw_label_bytes(model_->request)),
        slot_bytes_(base_plan().tensor(model_->raw_input).slot_bytes),
        slots_(2 * slot_bytes_) {
    last_enqueued_.reserve(512);
  }

  /// The host's slots go with it, and a copy from one may be under way.
  ~CudaBackend() override { cudaStreamSynchronize(stream()); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const CompiledModel& model() const override { return *model_; }
  const ArenaKeeper& arenas() const override { return arenas_; }

  std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer, StepKind kind) override {
    return record({variant, buffer, kind}, step_parts(*model_, variant, kind), !ends_a_pass(variant));
  }

  std::unique_ptr<CapturedStep> capture_parts(Variant variant, InputBuffer buffer,
                                              const std::vector<GraphId>& parts) override {
    return record({variant, buffer}, parts, false);
  }

  InputSlot input(int rank, InputBuffer buffer) override {
    TR_CHECK(rank == 0, IndexError, cat("cuda input: rank ", rank, "; there is rank 0 only"));
    std::byte* slot = host_slot(buffer);
    InputSlot input{slot + label_bytes_, reinterpret_cast<int32_t*>(slot), true};
    if (model_->request.mix_samples) input.mix = reinterpret_cast<BatchMix*>(slot + mix_offset());
    return input;
  }

  bool loads_ahead() const override { return true; }

  void load_input(Variant variant, InputBuffer buffer) override {
    holds_zeros_ = false;
    for (const NamedCall& call : input_calls(variant, buffer, stream())) call.call();
    check(cudaGetLastError());
    check(cudaEventRecord(slot_read_[index_of_buffer(buffer)].handle(), stream()));
    last_enqueued_.assign("load_input");
  }

  void wait_input(InputBuffer buffer) override {
    check(cudaEventSynchronize(slot_read_[index_of_buffer(buffer)].handle()));
  }

  void write(int rank, int64_t offset, const void* from, int64_t bytes) override {
    std::byte* to = checked(rank, offset, bytes);
    holds_zeros_ = false;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()));
    check(cudaStreamSynchronize(stream()));
  }

  void read(int rank, int64_t offset, void* to, int64_t bytes) override {
    const std::byte* from = checked(rank, offset, bytes);
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()));
    check(cudaStreamSynchronize(stream()));
  }

  void synchronize() override { check(cudaStreamSynchronize(stream())); }

  std::vector<NodeTime> profile(Variant variant, int repeats) override {
    std::vector<NamedCall> calls = input_calls(variant, InputBuffer::A, stream());
    for (NamedCall& call : bind({variant, InputBuffer::A}, program_parts(program_of(variant))))
      calls.push_back(std::move(call));
    holds_zeros_ = false;
    std::vector<NodeTime> times;
    times.reserve(calls.size());
    for (const NamedCall& call : calls)
      times.push_back({call.name, time_on_stream(stream(), call.call, repeats), call.work});
    return times;
  }

  DeviceRates measure_rates(DType dtype) override { return measure_cuda_rates(device_.context(), dtype); }

  int64_t device_bytes() const override { return free_before_arena_ - free_device_bytes(); }
  int64_t device_overhead_bytes() const override { return total_device_bytes() - free_before_arena_; }

 private:
  class Step : public CapturedStep {
   public:
    Step(CudaBackend& backend, Owned<cudaGraphExec_t> executable, const std::string& name,
         std::vector<NamedCall> calls, const CudaEvent* slot_read)
        : backend_(backend),
          calls_(std::move(calls)),
          executable_(std::move(executable)),
          slot_read_(slot_read) {
      check_cuda(cudaGraphUpload(executable_.get(), backend_.stream()), name);
    }

    /// What the graph launches must outlive it.
    ~Step() override { cudaStreamSynchronize(backend_.stream()); }

    void launch() override {
      backend_.holds_zeros_ = false;
      backend_.check(cudaGraphLaunch(executable_.get(), backend_.stream()));
      backend_.last_enqueued_.assign(calls_.back().name);
      if (slot_read_ != nullptr) backend_.check(cudaEventRecord(slot_read_->handle(), backend_.stream()));
    }

   private:
    CudaBackend& backend_;
    /// Kept, since they own the library plans whose kernels the graph launches.
    std::vector<NamedCall> calls_;
    Owned<cudaGraphExec_t> executable_;
    /// Recorded when the step has taken in the other buffer's batch; may be null.
    const CudaEvent* slot_read_;
  };

  const MemoryPlan& base_plan() const { return model_->plan(Variant::TRAIN_BASE); }
  cudaStream_t stream() { return device_.context().stream; }
  std::byte* host_slot(InputBuffer buffer) const {
    return slots_.data() + static_cast<int64_t>(index_of_buffer(buffer)) * slot_bytes_;
  }

  void check(cudaError_t status) const {
    TR_CHECK(status == cudaSuccess, DeviceError,
             cat("device 'cuda': ", cudaGetErrorString(status), " (", cudaGetErrorName(status), "); ",
                 last_enqueued_.empty() ? std::string("nothing") : cat('\'', last_enqueued_, '\''),
                 " was the last node enqueued. What was saved before is intact; start again from it"));
  }

  std::byte* checked(int rank, int64_t offset, int64_t bytes) const {
    std::byte* address = arenas_.ptr_at(rank, offset);
    TR_CHECK(bytes >= 0 && bytes <= arenas_.bytes() - offset, IndexError,
             cat("arena: ", bytes, " bytes at ", offset, " pass its end at ", arenas_.bytes()));
    return address;
  }

  /// Of a raw batch's BatchMix, where samples are mixed.
  int64_t mix_offset() const { return label_bytes_ - static_cast<int64_t>(sizeof(BatchMix)); }

  /// Takes a batch from the host's slot to the input tensors of `buffer`.
  std::vector<NamedCall> input_calls(Variant variant, InputBuffer buffer, cudaStream_t on) {
    const MemoryPlan& plan = model_->plan(variant);
    const Shape& shape = model_->request.inputs[static_cast<size_t>(variant)];
    const auto tensor = [&](TensorId id) { return plan.tensor(for_buffer(id, buffer)); };
    const DTensor data = tensor(INPUT_A_DATA);
    const int64_t bytes = label_bytes_ + shape.numel();
    std::byte* raw = arenas_.ptr_at(0, plan.tensor(model_->raw_input).offset);
    const std::byte* host = host_slot(buffer);
    RawBatch batch{raw, label_bytes_, shape.n(), shape.h() * shape.w(), shape.c()};
    InputTensors input{reinterpret_cast<int32_t*>(arenas_.ptr_at(0, tensor(INPUT_A_LABEL).offset)),
                       arenas_.ptr_at(0, data.offset), data.dtype, pixel_stride(data)};
    if (model_->request.mix_samples && is_training(variant)) {
      batch.width = shape.w();
      batch.mix = reinterpret_cast<const BatchMix*>(raw + mix_offset());
      input.mix = reinterpret_cast<BatchMix*>(arenas_.ptr_at(0, tensor(INPUT_A_MIX).offset));
    }
    const CompileRequest& request = model_->request;  // lives as long as the calls
    return {{"copy input",
             [=] {
               check_cuda(cudaMemcpyAsync(raw, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, on),
                          "copy input");
             },
             {bytes, 0}},
            {"unpack input",
             [=, &request] { launch_unpack_input(batch, request.pixel_mean, request.pixel_std, input, on); },
             {bytes + data.data_bytes(), 0}}};
  }

  NamedCall bind_compute(const GraphNode& node, const StepPlace& step) {
    const MemoryPlan& plan = model_->plan(step.variant);
    const CatalogEntry& entry = *model_->ops[static_cast<size_t>(node.op)].entry;
    Binding binding;
    binding.query = model_->query(node.op, step.variant);
    binding.pass = node.pass;
    for (const NodeOperand& operand : node.operands) {
      const DTensor& tensor = plan.tensor(captured_id(*model_, operand.id, step));
      binding.operands.push_back({operand.port, operand.index, tensor, arenas_.ptr_at(0, tensor.offset)});
    }
    if (node.workspace != NO_TENSOR)
      binding.workspace = arenas_.ptr_at(0, plan.tensor(node.workspace).offset);
    const auto& kernels = entry.kernels[static_cast<size_t>(BackendKind::CUDA)];
    TR_CHECK(kernels != nullptr, NotSupportedError,
             cat("'", node.name, "': this build has no cuda kernels for it"));
    NamedCall call{node.name, kernels->prepare(binding, device_.context()),
                   node_work(*model_, node, step.variant)};
    check_cuda(cudaGetLastError(), cat("'", node.name, "': preparing it"));
    return call;
  }

  /// Overwrites ranges of the arena.
  NamedCall poison_call(const std::vector<ByteRange>& ranges) {
    return {"poison",
            [ranges, arena = arenas_.ptr_at(0, 0), on = stream()] {
              for (const ByteRange& range : ranges)
                check_cuda(
                    cudaMemsetAsync(arena + range.offset, POISON_BYTE, static_cast<size_t>(range.bytes), on),
                    "poison");
            },
            {}};
  }

  /// The calls of `parts` in order; neighbouring RANGE nodes are bound together, across parts.
  std::vector<NamedCall> bind(const StepPlace& step, const std::vector<GraphId>& parts) {
    ValuesForTiming values(device_.context(), base_plan(), arenas_.ptr_at(0, 0), holds_zeros_);
    const Poison poison = options_.poison_dead_bytes ? Poison(*model_, program_of(step.variant)) : Poison();
    std::vector<NamedCall> calls;
    const auto overwrite = [&](const std::vector<ByteRange>& dead) {
      if (!dead.empty()) calls.push_back(poison_call(dead));
    };
    std::vector<const GraphNode*> ranges;
    const auto flush = [&] {
      if (ranges.empty()) return;
      for (const GraphNode* node : ranges) overwrite(poison.before(*node));
      for (RangeCall& range : bind_ranges_cuda(ranges, *model_, model_->plan(step.variant),
                                               arenas_.ptr_at(0, 0), step.buffer, stream()))
        calls.push_back({std::move(range.name), std::move(range.call), {range.bytes, 0}});
      for (const GraphNode* node : ranges) overwrite(poison.after(*node));
      ranges.clear();
    };
    for (const GraphId part : parts)
      for (const GraphNode& node : model_->graph.part(part)) {
        if (node.kind == NodeKind::RANGE) {
          ranges.push_back(&node);
          continue;
        }
        flush();
        overwrite(poison.before(node));
        calls.push_back(bind_compute(node, step));
        overwrite(poison.after(node));
      }
    flush();
    device_.algorithms().save();
    return calls;
  }

  std::unique_ptr<CapturedStep> record(const StepPlace& step, const std::vector<GraphId>& parts,
                                       bool takes_next) {
    const auto [variant, buffer, kind] = step;
    const std::string name = cat("step ", variant_name(variant), buffer == InputBuffer::A ? " A" : " B");
    std::vector<NamedCall> calls = bind(step, parts);
    TR_CHECK(!calls.empty(), ValueError, cat(name, ": these parts have no node"));
    std::vector<NamedCall> next;
    if (takes_next) next = input_calls(variant, other(buffer), device_.copy_stream());
    check(cudaStreamSynchronize(stream()));

    const auto enqueue_step = [&] {
      const CudaEvent started, taken;
      if (takes_next) {
        follow(device_.copy_stream(), stream(), started, name);
        for (const NamedCall& call : next) enqueue(call, name);
      }
      for (const NamedCall& call : calls) enqueue(call, name);
      if (takes_next) follow(stream(), device_.copy_stream(), taken, name);
    };
    Owned<cudaGraphExec_t> executable = capture_graph(stream(), enqueue_step, name);
    return std::make_unique<Step>(*this, std::move(executable), name, std::move(calls),
                                  takes_next ? &slot_read_[index_of_buffer(other(buffer))] : nullptr);
  }

  /// What `later` is given from here on starts after what `earlier` was given so far.
  static void follow(cudaStream_t later, cudaStream_t earlier, const CudaEvent& event,
                     const std::string& step) {
    check_cuda(cudaEventRecord(event.handle(), earlier), step);
    check_cuda(cudaStreamWaitEvent(later, event.handle()), step);
  }

  /// One node into the capture; what breaks it is named.
  void enqueue(const NamedCall& call, const std::string& step) {
    const auto failed = [&](std::string_view reason) {
      return cat(step, ": capturing '", call.name, "' failed: ", reason);
    };
    try {
      call.call();
    } catch (const Error& error) {
      throw Error(error.kind(), failed(error.what()));
    }
    const cudaError_t error = cudaGetLastError();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    const cudaError_t asked = cudaStreamIsCapturing(stream(), &status);
    TR_CHECK(error == cudaSuccess && asked == cudaSuccess && status == cudaStreamCaptureStatusActive,
             DeviceError,
             failed(error != cudaSuccess || asked != cudaSuccess
                        ? cudaGetErrorString(error != cudaSuccess ? error : asked)
                        : "it did what must not be done while a graph is recorded"));
  }

  std::shared_ptr<const CompiledModel> model_;
  ContextOptions options_;
  CudaDevice device_;
  int64_t free_before_arena_;
  DeviceArenaAllocator allocator_;
  ArenaKeeper arenas_;
  int64_t label_bytes_, slot_bytes_;
  PinnedMemory slots_;
  std::array<CudaEvent, 2> slot_read_;  ///< by buffer: its host slot has been read
  std::string last_enqueued_;           ///< a node; has room, so that no launch allocates
  bool holds_zeros_ = true;             ///< the arena, as nothing was written to it yet
};

}  // namespace

std::unique_ptr<Context> make_cuda_context(std::shared_ptr<const CompiledModel> model,
                                           const ContextOptions& options) {
  require_cuda_device();
  return std::make_unique<CudaBackend>(std::move(model), options);
}

int64_t available_cuda_bytes() {
  require_cuda_device();
  return std::max<int64_t>(free_device_bytes() - LIBRARY_BYTES, 0);
}

}  // namespace tr
