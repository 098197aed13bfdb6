// The CUDA backend: a captured step is one executable graph, replayed by one launch.
#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/factories.h"
#include "range_ops/input_buffer.h"
#include "range_ops/input_cuda.h"
#include "range_ops/range_ops_cuda.h"

namespace tr {

namespace {

/// What the driver and the libraries take beside the arena, when available memory is asked for ahead of them:
/// the modules of cuDNN and cuBLASLt are loaded as kernels are first used.
constexpr int64_t LIBRARY_BYTES = 512ll << 20;

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
  int64_t bytes = 0, flops = 0;
};

/// Owns an executable graph.
class Executable {
 public:
  Executable(cudaGraph_t graph, const std::string& who) {
    const cudaError_t status = cudaGraphInstantiate(&handle_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, cat(who, ": instantiating the captured step"));
  }
  ~Executable() { cudaGraphExecDestroy(handle_); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  cudaGraphExec_t handle() const { return handle_; }

 private:
  cudaGraphExec_t handle_ = nullptr;
};

class CudaBackend : public Context {
 public:
  explicit CudaBackend(std::shared_ptr<const CompiledModel> model)
      : model_(std::move(model)),
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

  std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer) override {
    return record(variant, buffer, program_parts(program_of(variant)), !ends_a_pass(variant));
  }

  std::unique_ptr<CapturedStep> capture_parts(Variant variant, InputBuffer buffer,
                                              const std::vector<GraphId>& parts) override {
    return record(variant, buffer, parts, false);
  }

  InputSlot input(int rank, InputBuffer buffer) override {
    TR_CHECK(rank == 0, IndexError, cat("cuda input: rank ", rank, "; there is rank 0 only"));
    std::byte* slot = host_slot(buffer);
    return {slot + label_bytes_, reinterpret_cast<int32_t*>(slot), true};
  }

  bool loads_ahead() const override { return true; }

  void load_input(Variant variant, InputBuffer buffer) override {
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
    for (NamedCall& call : bind(variant, InputBuffer::A, program_parts(program_of(variant))))
      calls.push_back(std::move(call));
    std::vector<NodeTime> times;
    times.reserve(calls.size());
    for (const NamedCall& call : calls)
      times.push_back({call.name, repeats > 0 ? time_on_stream(stream(), call.call, repeats) : 0.0,
                       call.bytes, call.flops});
    return times;
  }

  DeviceRates measure_rates(DType dtype) override { return measure_cuda_rates(device_.context(), dtype); }

  int64_t device_bytes() const override { return free_before_arena_ - free_device_bytes(); }
  int64_t device_overhead_bytes() const override { return total_device_bytes() - free_before_arena_; }

 private:
  class Step : public CapturedStep {
   public:
    Step(CudaBackend& backend, cudaGraph_t graph, const std::string& name, std::vector<NamedCall> calls,
         const CudaEvent* slot_read)
        : backend_(backend), calls_(std::move(calls)), executable_(graph, name), slot_read_(slot_read) {
      check_cuda(cudaGraphUpload(executable_.handle(), backend_.stream()), name);
    }

    /// What the graph launches must outlive it.
    ~Step() override { cudaStreamSynchronize(backend_.stream()); }

    void launch() override {
      backend_.check(cudaGraphLaunch(executable_.handle(), backend_.stream()));
      if (slot_read_ != nullptr) backend_.check(cudaEventRecord(slot_read_->handle(), backend_.stream()));
      backend_.last_enqueued_.assign(calls_.back().name);
    }

   private:
    CudaBackend& backend_;
    /// Kept, since they own the library plans whose kernels the graph launches.
    std::vector<NamedCall> calls_;
    Executable executable_;
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

  /// Takes a batch from the host's slot to the input tensors of `buffer`.
  std::vector<NamedCall> input_calls(Variant variant, InputBuffer buffer, cudaStream_t on) {
    const MemoryPlan& plan = model_->plan(variant);
    const Shape& shape = model_->request.inputs[static_cast<size_t>(variant)];
    const auto tensor = [&](TensorId id) { return plan.tensor(for_buffer(id, buffer)); };
    const DTensor data = tensor(INPUT_A_DATA);
    const int64_t bytes = label_bytes_ + shape.numel();
    std::byte* raw = arenas_.ptr_at(0, plan.tensor(model_->raw_input).offset);
    const std::byte* host = host_slot(buffer);
    const RawBatch batch{raw, label_bytes_, shape.n(), shape.h() * shape.w(), shape.c()};
    const InputTensors input{reinterpret_cast<int32_t*>(arenas_.ptr_at(0, tensor(INPUT_A_LABEL).offset)),
                             arenas_.ptr_at(0, data.offset), data.dtype, pixel_stride(data)};
    const CompileRequest& request = model_->request;  // lives as long as the calls
    return {{"copy input",
             [=] {
               check_cuda(cudaMemcpyAsync(raw, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, on),
                          "copy input");
             },
             bytes},
            {"unpack input",
             [=, &request] { launch_unpack_input(batch, request.pixel_mean, request.pixel_std, input, on); },
             bytes + data.data_bytes()}};
  }

  NamedCall bind_compute(const GraphNode& node, Variant variant, InputBuffer buffer) {
    const MemoryPlan& plan = model_->plan(variant);
    const CatalogEntry& entry = *model_->ops[static_cast<size_t>(node.op)].entry;
    NamedCall call{node.name, {}, 0, 0};
    Binding binding;
    binding.query = model_->query(node.op, variant);
    binding.pass = node.pass;
    for (const NodeOperand& operand : node.operands) {
      const DTensor& tensor = plan.tensor(for_buffer(operand.id, buffer));
      binding.operands.push_back({operand.port, operand.index, tensor, arenas_.ptr_at(0, tensor.offset)});
      if (operand.port != Port::BASELINE)
        call.bytes += tensor.data_bytes() * ((operand.read ? 1 : 0) + (operand.write ? 1 : 0));
    }
    binding.workspace = arenas_.ptr_at(0, plan.tensor(model_->workspace).offset);
    const auto& kernels = entry.kernels[static_cast<size_t>(BackendKind::CUDA)];
    TR_CHECK(kernels != nullptr, NotSupportedError,
             cat("'", node.name, "': this build has no cuda kernels for it"));
    call.call = kernels->prepare(binding, device_.context());
    call.flops = entry.spec->flops(binding.query, node.pass);
    const cudaError_t status = cudaGetLastError();
    check_cuda(status, cat("'", node.name, "': preparing it"));
    return call;
  }

  /// The calls of `parts` in order; neighbouring RANGE nodes are bound together, across parts.
  std::vector<NamedCall> bind(Variant variant, InputBuffer buffer, const std::vector<GraphId>& parts) {
    std::vector<NamedCall> calls;
    std::vector<const GraphNode*> ranges;
    const auto flush = [&] {
      if (ranges.empty()) return;
      for (RangeCall& range :
           bind_ranges_cuda(ranges, *model_, model_->plan(variant), arenas_.ptr_at(0, 0), buffer, stream()))
        calls.push_back({std::move(range.name), std::move(range.call), range.bytes, 0});
      ranges.clear();
    };
    for (const GraphId part : parts)
      for (const GraphNode& node : model_->graph.part(part)) {
        if (node.kind == NodeKind::RANGE) {
          ranges.push_back(&node);
          continue;
        }
        flush();
        calls.push_back(bind_compute(node, variant, buffer));
      }
    flush();
    device_.algorithms().save();
    return calls;
  }

  std::unique_ptr<CapturedStep> record(Variant variant, InputBuffer buffer, const std::vector<GraphId>& parts,
                                       bool takes_next) {
    const std::string name = cat("step ", variant_name(variant), buffer == InputBuffer::A ? " A" : " B");
    std::vector<NamedCall> calls = bind(variant, buffer, parts);
    TR_CHECK(!calls.empty(), ValueError, cat(name, ": these parts have no node"));
    std::vector<NamedCall> next;
    if (takes_next) next = input_calls(variant, other(buffer), device_.copy_stream());
    check(cudaStreamSynchronize(stream()));

    // Relaxed: a kernel's first use may load its module in the middle of a capture.
    check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), name);
    try {
      const CudaEvent started, taken;
      if (takes_next) {
        follow(device_.copy_stream(), stream(), started, name);
        for (const NamedCall& call : next) enqueue(call, name);
      }
      for (const NamedCall& call : calls) enqueue(call, name);
      if (takes_next) follow(stream(), device_.copy_stream(), taken, name);
    } catch (...) {
      cudaGraph_t abandoned = nullptr;
      cudaStreamEndCapture(stream(), &abandoned);
      if (abandoned != nullptr) cudaGraphDestroy(abandoned);
      cudaGetLastError();
      throw;
    }
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream(), &graph), cat(name, ": ending the capture"));
    return std::make_unique<Step>(*this, graph, name, std::move(calls),
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
    call.call();
    const cudaError_t error = cudaGetLastError();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    const cudaError_t asked = cudaStreamIsCapturing(stream(), &status);
    TR_CHECK(error == cudaSuccess && asked == cudaSuccess && status == cudaStreamCaptureStatusActive,
             DeviceError,
             cat(step, ": capturing '", call.name,
                 "' failed: ", cudaGetErrorString(error != cudaSuccess ? error : asked)));
  }

  std::shared_ptr<const CompiledModel> model_;
  CudaDevice device_;
  int64_t free_before_arena_;
  DeviceArenaAllocator allocator_;
  ArenaKeeper arenas_;
  int64_t label_bytes_, slot_bytes_;
  PinnedMemory slots_;
  std::array<CudaEvent, 2> slot_read_;  ///< by buffer: its host slot has been read
  std::string last_enqueued_;           ///< a node; has room, so that no launch allocates
};

}  // namespace

std::unique_ptr<Context> make_cuda_context(std::shared_ptr<const CompiledModel> model) {
  require_cuda_device();
  return std::make_unique<CudaBackend>(std::move(model));
}

int64_t available_cuda_bytes() {
  require_cuda_device();
  return std::max<int64_t>(free_device_bytes() - LIBRARY_BYTES, 0);
}

}  // namespace tr
