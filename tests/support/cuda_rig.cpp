#include "support/cuda_rig.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "ops/support/cuda.h"
#include "ops/support/cuda_graph.h"
#include "ops/support/cuda_owned.h"
#include "range_ops/range_ops_cuda.h"

namespace tr::test {

namespace {

/// Where choices of algorithms are remembered for another process; by default nowhere. Under a tool that
/// slows kernels down a thousandfold, timing them is what takes long.
std::string algorithms_file() {
  const char* file = std::getenv("TR_TEST_ALGORITHMS");
  return file ? file : "";
}

/// A stream and library handles. They take a tenth of a second to make, so rigs of equal rules share them.
class Handles {
 public:
  explicit Handles(const Target& target) : algorithms_(algorithms_file(), "tests") {
    context.stream = stream_.get();
    context.cudnn = cudnn_.get();
    context.cublaslt = cublaslt_.get();
    check_cudnn(cudnnSetStream(context.cudnn, context.stream), "mirror's cuDNN handle");
    int device = 0;
    check_cuda(cudaGetDevice(&device), "mirror's device");
    check_cuda(cudaDeviceGetAttribute(&context.multiprocessors, cudaDevAttrMultiProcessorCount, device),
               "mirror's device");
    context.algorithms = &algorithms_;
    context.deterministic = target.deterministic;
    context.allow_tf32 = target.allow_tf32;
  }
  ~Handles() { algorithms_.save(); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  CudaContext context;

 private:
  Owned<cudaStream_t> stream_ = make_owned<cudaStream_t>([](cudaStream_t* to) {
    check_cuda(cudaStreamCreateWithFlags(to, cudaStreamNonBlocking), "mirror's stream");
  });
  Owned<cudnnHandle_t> cudnn_ = make_owned<cudnnHandle_t>(
      [](cudnnHandle_t* to) { check_cudnn(cudnnCreate(to), "mirror's cuDNN handle"); });
  Owned<cublasLtHandle_t> cublaslt_ = make_owned<cublasLtHandle_t>(
      [](cublasLtHandle_t* to) { check_cublas(cublasLtCreate(to), "mirror's cuBLASLt handle"); });
  AlgorithmCache algorithms_;
};

/// Gives handles back when the tests are over: at exit the libraries that they load later are gone first.
class SharedHandles : public testing::Environment {
 public:
  std::shared_ptr<Handles> get(const Target& target) {
    std::shared_ptr<Handles>& handles = made_[{target.deterministic, target.allow_tf32}];
    if (!handles) handles = std::make_shared<Handles>(target);
    return handles;
  }
  void TearDown() override { made_.clear(); }

 private:
  std::map<std::pair<bool, bool>, std::shared_ptr<Handles>> made_;
};

// GoogleTest owns it.
SharedHandles* const SHARED_HANDLES =
    static_cast<SharedHandles*>(testing::AddGlobalTestEnvironment(new SharedHandles));

class CudaMirror : public DeviceMirror {
 public:
  explicit CudaMirror(const Target& target)
      : handles_(SHARED_HANDLES->get(target)), context_(handles_->context) {}
  ~CudaMirror() override {
    for (std::byte* memory : allocations_) cudaFree(memory);
  }
  CudaMirror(const CudaMirror&) = delete;
  CudaMirror& operator=(const CudaMirror&) = delete;

  KernelContext& context() override { return context_; }

  std::byte* allocate(int64_t bytes) override {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, static_cast<size_t>(bytes)), "mirror's memory");
    allocations_.push_back(static_cast<std::byte*>(memory));
    fill(allocations_.back(), 0, bytes);
    return allocations_.back();
  }

  void fill(std::byte* to, int byte, int64_t bytes) override {
    check_cuda(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), context_.stream), "mirror's memory");
  }

  // On the stream: a plain cudaMemcpy from pageable memory may still be under way when it returns.
  void upload(std::byte* to, const std::byte* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, context_.stream),
               "mirror's upload");
  }
  void download(std::byte* to, const std::byte* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, context_.stream),
               "mirror's download");
    check_cuda(cudaStreamSynchronize(context_.stream), "mirror's download");
  }

  void run(const Call& call, bool captured, const std::string& who) override {
    if (captured)
      run_captured(call, who);
    else
      call();
    check_cuda(cudaGetLastError(), who);
    check_cuda(cudaStreamSynchronize(context_.stream), who);
  }

  Call bind_ranges(const std::vector<const GraphNode*>& nodes, const CompiledModel& model,
                   const MemoryPlan& plan, std::byte* base, InputBuffer buffer) override {
    return [calls = bind_ranges_cuda(nodes, model, plan, base, buffer, context_.stream)] {
      for (const RangeCall& range : calls) range.call();
    };
  }

 private:
  void run_captured(const Call& call, const std::string& who) {
    const auto executable = capture_graph(context_.stream, call, who);
    check_cuda(cudaGraphLaunch(executable.get(), context_.stream), who);
    check_cuda(cudaStreamSynchronize(context_.stream), who);
  }

  std::shared_ptr<Handles> handles_;
  CudaContext& context_;
  std::vector<std::byte*> allocations_;
};

}  // namespace

bool has_cuda_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  cudaGetLastError();  // a missing driver is an answer here, no failure of later calls
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) return false;
  check_cuda(status, "looking for a device");
  return devices > 0;
}

std::unique_ptr<DeviceMirror> make_device_mirror(const Target& target) {
  return std::make_unique<CudaMirror>(target);
}

int64_t free_device_bytes() {
  size_t available = 0, total = 0;
  check_cuda(cudaMemGetInfo(&available, &total), "free device memory");
  return static_cast<int64_t>(available);
}

}  // namespace tr::test
