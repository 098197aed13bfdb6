#include "backend/cuda/device.h"
#include "backend/cuda/random_values.h"

namespace tr {

namespace {

constexpr int REPEATS = 9;
constexpr int64_t SIDE = 8192;

class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes) {
    check_cuda(cudaMalloc(&data_, static_cast<size_t>(bytes)), cat("measuring rates with ", bytes, " bytes"));
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// From -1 to 1: a product of zeros would run faster than one of real data.
void fill_random(CudaContext& context, const DeviceMemory& memory, int64_t bytes, DType dtype) {
  launch_random_values(dtype, memory.data(), bytes / dtype_bytes(dtype), 1.0f, context.stream);
  check_cuda(cudaGetLastError(), "measuring rates");
}

double matrix_rate(CudaContext& context, DType dtype) {
  const cudaDataType_t type = dtype == DType::FP32   ? CUDA_R_32F
                              : dtype == DType::FP16 ? CUDA_R_16F
                                                     : CUDA_R_16BF;
  const int64_t bytes = SIDE * SIDE * dtype_bytes(dtype);
  const DeviceMemory a(bytes), b(bytes), c(bytes);
  fill_random(context, a, bytes, dtype);
  fill_random(context, b, bytes, dtype);
  const cublasComputeType_t compute =
      dtype == DType::FP32 && context.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const auto product = make_owned<cublasLtMatmulDesc_t>([&](cublasLtMatmulDesc_t* to) {
    check_cublas(cublasLtMatmulDescCreate(to, compute, CUDA_R_32F), "measuring rates");
  });
  const auto square = make_owned<cublasLtMatrixLayout_t>([&](cublasLtMatrixLayout_t* to) {
    check_cublas(cublasLtMatrixLayoutCreate(to, type, SIDE, SIDE, SIDE), "measuring rates");
  });
  const float one = 1.0f, zero = 0.0f;
  const double ms = time_on_stream(
      context.stream,
      [&] {
        check_cublas(cublasLtMatmul(context.cublaslt, product.get(), &one, a.data(), square.get(), b.data(),
                                    square.get(), &zero, c.data(), square.get(), c.data(), square.get(),
                                    nullptr, nullptr, 0, context.stream),
                     "measuring rates");
      },
      REPEATS);
  return 2.0 * SIDE * SIDE * SIDE / ms * 1e3;
}

}  // namespace

DeviceRates measure_cuda_rates(CudaContext& context, DType dtype) {
  constexpr int64_t COPY_BYTES = 1ll << 30;
  DeviceRates rates;
  {
    const DeviceMemory from(COPY_BYTES), to(COPY_BYTES);
    fill_random(context, from, COPY_BYTES, DType::FP32);
    const double ms = time_on_stream(
        context.stream,
        [&] {
          check_cuda(cudaMemcpyAsync(to.data(), from.data(), static_cast<size_t>(COPY_BYTES),
                                     cudaMemcpyDeviceToDevice, context.stream),
                     "measuring rates");
        },
        REPEATS);
    rates.copy_bytes_per_s = 2.0 * static_cast<double>(COPY_BYTES) / ms * 1e3;
  }
  rates.matrix_flops_per_s = matrix_rate(context, dtype);
  return rates;
}

}  // namespace tr
