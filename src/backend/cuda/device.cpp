#include "backend/cuda/device.h"

#include <cstdlib>
#include <cstring>
#include <iostream>

namespace tr {

namespace {

/// "9.19.0" of cuDNN's 91900.
std::string cudnn_version_text(size_t version) {
  return cat(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

/// To be raised when kernels change speed, or what is compared, so that the choice is made anew.
constexpr int KERNEL_GENERATION = 3;

std::string cuda_version_text(int version) { return cat(version / 1000, '.', version % 1000 / 10); }

void require_card() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return;
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (status == cudaErrorInsufficientDriver && driver > 0)
    throw Error(ErrorKind::DeviceError,
                cat("device 'cuda': the driver supports CUDA ", cuda_version_text(driver),
                    ", this build needs ", cuda_version_text(CUDART_VERSION), "; update the driver"));
  if (status == cudaErrorInsufficientDriver || driver == 0)
    throw Error(ErrorKind::DeviceError,
                "device 'cuda': no NVIDIA driver is loaded; install one, or use device: cpu");
  if (status == cudaErrorNoDevice || status == cudaSuccess)
    throw Error(ErrorKind::DeviceError,
                "device 'cuda': the driver sees no card (CUDA_VISIBLE_DEVICES may hide it); use device: cpu");
  throw Error(ErrorKind::DeviceError, cat("device 'cuda': ", cudaGetErrorString(status)));
}

void require_capability() {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, 0), "device 'cuda'");
  const int capability = 10 * properties.major + properties.minor;
  TR_CHECK(capability >= TR_LEAST_CAPABILITY, DeviceError,
           cat("device 'cuda': ", properties.name, " has compute capability ", properties.major, '.',
               properties.minor, ", this build needs at least ", TR_LEAST_CAPABILITY / 10, '.',
               TR_LEAST_CAPABILITY % 10, "; use device: cpu"));
}

void require_libraries() {
  const size_t cudnn = cudnnGetVersion();
  TR_CHECK(cudnn / 10000 == CUDNN_MAJOR && cudnn >= CUDNN_VERSION, DeviceError,
           cat("device 'cuda': cuDNN ", cudnn_version_text(cudnn), " was loaded, this build needs ",
               cudnn_version_text(CUDNN_VERSION), " or newer of version ", CUDNN_MAJOR,
               "; check LD_LIBRARY_PATH or rebuild"));
  TR_CHECK(cublasLtGetVersion() / 10000 == CUBLAS_VERSION / 10000, DeviceError,
           cat("device 'cuda': cuBLASLt ", cublasLtGetVersion(), " was loaded, this build needs ",
               CUBLAS_VERSION, "; check LD_LIBRARY_PATH or rebuild"));
}

/// Card, driver and libraries, and the generation of our own kernels: choices made among others are not
/// trusted.
std::string machine_text() {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, 0), "device 'cuda'");
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "device 'cuda'");
  return cat(properties.name, " sm_", properties.major, properties.minor, " driver ", driver, " cudnn ",
             cudnnGetVersion(), " cublaslt ", cublasLtGetVersion(), " kernels ", KERNEL_GENERATION);
}

std::filesystem::path cache_file(const std::string& machine) {
  const std::filesystem::path folder = AlgorithmCache::default_folder();
  if (folder.empty()) return {};
  std::string name = machine;
  for (char& c : name)
    if (c == ' ' || c == '/') c = '-';
  return folder / ("algorithms-" + name + ".json");
}

Owned<cudaStream_t> make_stream() {
  return make_owned<cudaStream_t>([](cudaStream_t* to) {
    check_cuda(cudaStreamCreateWithFlags(to, cudaStreamNonBlocking), "cuda stream");
  });
}

Owned<cudnnHandle_t> make_cudnn(cudaStream_t stream) {
  auto handle =
      make_owned<cudnnHandle_t>([](cudnnHandle_t* to) { check_cudnn(cudnnCreate(to), "device 'cuda'"); });
  check_cudnn(cudnnSetStream(handle.get(), stream), "device 'cuda'");
  return handle;
}

Owned<cublasLtHandle_t> make_cublaslt() {
  return make_owned<cublasLtHandle_t>(
      [](cublasLtHandle_t* to) { check_cublas(cublasLtCreate(to), "device 'cuda'"); });
}

void print_debug_line(const std::string& line) { std::clog << "renaissance: " << line << std::endl; }

}  // namespace

void require_cuda_device() {
  require_card();
  require_capability();
  require_libraries();
}

int64_t free_device_bytes() {
  size_t available = 0, total = 0;
  check_cuda(cudaMemGetInfo(&available, &total), "device 'cuda'");
  return static_cast<int64_t>(available);
}

int64_t total_device_bytes() {
  size_t available = 0, total = 0;
  check_cuda(cudaMemGetInfo(&available, &total), "device 'cuda'");
  return static_cast<int64_t>(total);
}

std::byte* DeviceArenaAllocator::allocate(int rank, int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorKind::DeviceError,
                cat("cuda rank ", rank, ": the plan needs ", bytes, " bytes, ", free_device_bytes(),
                    " are free; use a smaller batch or resolution"));
  }
  check_cuda(cudaMemset(memory, 0, static_cast<size_t>(bytes)), "cuda arena");
  // It returns before it has run, and streams of ours do not wait for it.
  check_cuda(cudaDeviceSynchronize(), "cuda arena");
  return static_cast<std::byte*>(memory);
}

void DeviceArenaAllocator::release(int, std::byte* arena, int64_t) noexcept { cudaFree(arena); }

CudaDevice::CudaDevice(const Target& target)
    : algorithms_(cache_file(machine_text()), machine_text()),
      stream_(make_stream()),
      copy_stream_(make_stream()),
      cudnn_(make_cudnn(stream_.get())),
      cublaslt_(make_cublaslt()) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, 0), "device 'cuda'");
  context_.stream = stream_.get();
  context_.cudnn = cudnn_.get();
  context_.cublaslt = cublaslt_.get();
  context_.multiprocessors = properties.multiProcessorCount;
  context_.algorithms = &algorithms_;
  context_.deterministic = target.deterministic;
  context_.allow_tf32 = target.allow_tf32;
  if (std::getenv("RENAISSANCE_DEBUG") != nullptr) context_.debug = print_debug_line;
}

PinnedMemory::PinnedMemory(int64_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, static_cast<size_t>(bytes)), cat("pinned memory of ", bytes, " bytes"));
  std::memset(memory, 0, static_cast<size_t>(bytes));
  data_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

}  // namespace tr
