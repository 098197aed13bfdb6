#include <algorithm>
#include <vector>

#include "backend/cuda/device.h"
#include "renaissance/core/philox.h"

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

/// Random elements from -1 to 1 in `dtype`, one megabyte repeated: a product of zeros would run faster than
/// real data.
void fill_random(const DeviceMemory& memory, int64_t bytes, DType dtype) {
  std::vector<uint32_t> words(1 << 18);
  const Philox random(1);
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t bits = random.at(RandomPurpose::SYNTHETIC, 0, i)[0];
    const auto half = [&](uint32_t sixteen) {  // an exponent from 2^-4 to 1, any mantissa, either sign
      return dtype == DType::FP16 ? (sixteen & 0x83ffu) | (11u + (sixteen >> 10 & 3u)) << 10
                                  : (sixteen & 0x807fu) | (123u + (sixteen >> 7 & 3u)) << 7;
    };
    words[i] = dtype == DType::FP32 ? (bits & 0x807fffffu) | 125u << 23
                                    : half(bits >> 16) << 16 | half(bits & 0xffffu);
  }
  const auto chunk = static_cast<int64_t>(words.size() * sizeof(uint32_t));
  for (int64_t at = 0; at < bytes; at += chunk)
    check_cuda(cudaMemcpy(static_cast<std::byte*>(memory.data()) + at, words.data(),
                          static_cast<size_t>(std::min(chunk, bytes - at)), cudaMemcpyHostToDevice),
               "measuring rates");
}

double matrix_rate(CudaContext& context, DType dtype) {
  const cudaDataType_t type = dtype == DType::FP32   ? CUDA_R_32F
                              : dtype == DType::FP16 ? CUDA_R_16F
                                                     : CUDA_R_16BF;
  const int64_t bytes = SIDE * SIDE * dtype_bytes(dtype);
  const DeviceMemory a(bytes), b(bytes), c(bytes);
  fill_random(a, bytes, dtype);
  fill_random(b, bytes, dtype);
  const cublasComputeType_t compute =
      dtype == DType::FP32 && context.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t square = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F), "measuring rates");
  check_cublas(cublasLtMatrixLayoutCreate(&square, type, SIDE, SIDE, SIDE), "measuring rates");
  const float one = 1.0f, zero = 0.0f;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const double ms = time_on_stream(
      context.stream,
      [&] {
        status = cublasLtMatmul(context.cublaslt, product, &one, a.data(), square, b.data(), square, &zero,
                                c.data(), square, c.data(), square, nullptr, nullptr, 0, context.stream);
      },
      REPEATS);
  cublasLtMatrixLayoutDestroy(square);
  cublasLtMatmulDescDestroy(product);
  check_cublas(status, "measuring rates");
  return 2.0 * SIDE * SIDE * SIDE / ms * 1e3;
}

}  // namespace

DeviceRates measure_cuda_rates(CudaContext& context, DType dtype) {
  constexpr int64_t COPY_BYTES = 1ll << 30;
  DeviceRates rates;
  {
    const DeviceMemory from(COPY_BYTES), to(COPY_BYTES);
    fill_random(from, COPY_BYTES, DType::FP32);
    const double ms = time_on_stream(
        context.stream,
        [&] {
          cudaMemcpyAsync(to.data(), from.data(), static_cast<size_t>(COPY_BYTES), cudaMemcpyDeviceToDevice,
                          context.stream);
        },
        REPEATS);
    rates.copy_bytes_per_s = 2.0 * static_cast<double>(COPY_BYTES) / ms * 1e3;
  }
  rates.matrix_flops_per_s = matrix_rate(context, dtype);
  return rates;
}

}  // namespace tr
