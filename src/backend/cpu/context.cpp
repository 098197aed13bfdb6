// The CPU backend: a captured step is a list of calls with every pointer and oneDNN handle bound.
#include <omp.h>

#include <cstring>

#include "backend/cpu/host_arena.h"
#include "backend/cpu/rates.h"
#include "backend/factories.h"
#include "backend/poison.h"
#include "ops/support/cpu.h"
#include "range_ops/input_buffer.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

class CpuStep : public CapturedStep {
 public:
  CpuStep(std::vector<Call> calls, int threads) : calls_(std::move(calls)), threads_(threads) {}
  void launch() override {
    omp_set_num_threads(threads_);  // of the calling thread: contexts may have different counts
    for (const Call& call : calls_) call();
  }

 private:
  std::vector<Call> calls_;
  int threads_;
};

class CpuBackend : public Context {
 public:
  CpuBackend(std::shared_ptr<const CompiledModel> model, const ContextOptions& options)
      : model_(std::move(model)),
        options_(options),
        threads_(model_->request.target.threads > 0 ? model_->request.target.threads : omp_get_num_procs()),
        arenas_(model_->request.target.ranks, model_->plan(Variant::TRAIN_BASE).total_bytes(), allocator_) {}

  const CompiledModel& model() const override { return *model_; }
  const ArenaKeeper& arenas() const override { return arenas_; }

  std::unique_ptr<CapturedStep> capture(Variant variant, InputBuffer buffer, StepKind kind) override {
    return record({variant, buffer, kind}, step_parts(*model_, variant, kind));
  }

  std::unique_ptr<CapturedStep> capture_parts(Variant variant, InputBuffer buffer,
                                              const std::vector<GraphId>& parts) override {
    return record({variant, buffer}, parts);
  }

  std::unique_ptr<CapturedStep> record(const StepPlace& step, const std::vector<GraphId>& parts) {
    omp_set_num_threads(threads_);  // oneDNN sizes its primitives for this many
    std::vector<Call> calls;
    const auto add = [&](Call call) {
      if (call) calls.push_back(std::move(call));
    };
    const Poison poison = options_.poison_dead_bytes ? Poison(*model_, program_of(step.variant)) : Poison();
    // Between two exchanges each rank runs through, so that its data stay in cache.
    std::vector<const GraphNode*> pending;
    const auto flush = [&] {
      for (int rank = 0; rank < arenas_.ranks(); ++rank)
        for (const GraphNode* node : pending) {
          add(poison_bytes(poison.before(*node), rank));
          add(bind(*node, step, rank));
          add(poison_bytes(poison.after(*node), rank));
        }
      pending.clear();
    };
    for (const GraphId part : parts) {
      for (const GraphNode& node : model_->graph.part(part)) {
        if (node.kind == NodeKind::COMPUTE || !is_collective(node.range_op)) {
          pending.push_back(&node);
          continue;
        }
        flush();
        std::vector<std::byte*> bases;
        for (int rank = 0; rank < arenas_.ranks(); ++rank) bases.push_back(arenas_.ptr_at(rank, 0));
        add(bind_collective_cpu(node, *model_, model_->plan(step.variant),
                                bases));  // touches nothing transient
      }
    }
    flush();
    return std::make_unique<CpuStep>(std::move(calls), threads_);
  }

  InputSlot input(int rank, InputBuffer buffer) override {
    const MemoryPlan& plan = model_->plan(Variant::TRAIN_BASE);
    const auto at = [&](TensorId id) {
      return arenas_.ptr_at(rank, plan.tensor(for_buffer(id, buffer)).offset);
    };
    const DTensor& data = plan.tensor(INPUT_A_DATA);
    InputSlot slot{at(INPUT_A_DATA), reinterpret_cast<int32_t*>(at(INPUT_A_LABEL))};
    slot.dtype = data.dtype;
    slot.pixel_stride = data.strides[2];
    slot.mix = reinterpret_cast<BatchMix*>(at(INPUT_A_MIX));
    return slot;
  }

  void write(int rank, int64_t offset, const void* from, int64_t bytes) override {
    std::memcpy(checked(rank, offset, bytes), from, static_cast<size_t>(bytes));
  }
  void read(int rank, int64_t offset, void* to, int64_t bytes) override {
    std::memcpy(to, checked(rank, offset, bytes), static_cast<size_t>(bytes));
  }
  void wait_input(InputBuffer) override {}  // launch() has returned, so the step is over
  void synchronize() override {}            // calls have finished when launch() returns

  std::vector<NodeTime> profile(Variant variant, int repeats) override {
    omp_set_num_threads(threads_);
    std::vector<NodeTime> times;
    for (const GraphId part : program_parts(program_of(variant)))
      for (const GraphNode& node : model_->graph.part(part)) {
        if (node.kind == NodeKind::RANGE && is_collective(node.range_op)) continue;
        const Call call = bind(node, {variant, InputBuffer::A}, 0);
        if (call) times.push_back({node.name, median_ms(call, repeats), node_work(*model_, node, variant)});
      }
    return times;
  }

  DeviceRates measure_rates(DType) override {
    omp_set_num_threads(threads_);
    return measure_cpu_rates(kernel_context_);
  }

 private:
  std::byte* checked(int rank, int64_t offset, int64_t bytes) const {
    std::byte* address = arenas_.ptr_at(rank, offset);
    TR_CHECK(bytes >= 0 && bytes <= arenas_.bytes() - offset, IndexError,
             cat("arena: ", bytes, " bytes at ", offset, " pass its end at ", arenas_.bytes()));
    return address;
  }

  /// Empty where there is nothing to overwrite.
  Call poison_bytes(const std::vector<ByteRange>& ranges, int rank) const {
    if (ranges.empty()) return {};
    return [ranges, arena = arenas_.ptr_at(rank, 0)] {
      for (const ByteRange& range : ranges)
        std::memset(arena + range.offset, POISON_BYTE, static_cast<size_t>(range.bytes));
    };
  }

  Call bind(const GraphNode& node, const StepPlace& step, int rank) {
    const MemoryPlan& plan = model_->plan(step.variant);
    const auto at = [&](TensorId id) { return arenas_.ptr_at(rank, plan.tensor(id).offset); };
    if (node.kind == NodeKind::RANGE) {
      RangeBinding binding{node, *model_, plan, arenas_.ptr_at(rank, 0)};
      binding.from = node.from == NO_TENSOR ? NO_TENSOR : for_buffer(node.from, step.buffer);
      return bind_range_cpu(binding);
    }
    Binding binding;
    binding.query = model_->query(node.op, step.variant);
    binding.pass = node.pass;
    for (const NodeOperand& operand : node.operands) {
      const TensorId id = captured_id(*model_, operand.id, step);
      binding.operands.push_back({operand.port, operand.index, plan.tensor(id), at(id)});
    }
    if (node.workspace != NO_TENSOR) binding.workspace = at(node.workspace);
    const auto& kernels =
        model_->ops[static_cast<size_t>(node.op)].entry->kernels[static_cast<size_t>(BackendKind::CPU)];
    TR_CHECK(kernels != nullptr, NotSupportedError,
             cat("'", node.name, "': this build has no cpu kernels for it"));
    return kernels->prepare(binding, kernel_context_);
  }

  std::shared_ptr<const CompiledModel> model_;
  ContextOptions options_;
  int threads_;
  HostArenaAllocator allocator_;
  ArenaKeeper arenas_;
  CpuContext kernel_context_;
};

}  // namespace

std::unique_ptr<Context> make_cpu_context(std::shared_ptr<const CompiledModel> model,
                                          const ContextOptions& options) {
  return std::make_unique<CpuBackend>(std::move(model), options);
}

int64_t available_cpu_bytes() { return available_host_bytes(); }

}  // namespace tr
