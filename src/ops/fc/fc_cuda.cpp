// Fully connected layers on CUDA: the operator's own kernels, one launch a pass, or products through cuBLASLt
// with small kernels around them; the fastest by timing.
#include "ops/fc/fc_cuda.h"

#include <algorithm>
#include <array>
#include <iomanip>

#include "ops/fc/fc.h"
#include "ops/support/cuda.h"
#include "ops/support/cuda_owned.h"
#include "ops/support/fastest.h"

namespace tr {
namespace {

constexpr std::string_view WHO = "fc";
/// The ways of a product.
constexpr const char* ALGORITHMS = "cuBLASLt";

cudaDataType_t library_type(DType dtype) {
  return dtype == DType::FP32 ? CUDA_R_32F : dtype == DType::FP16 ? CUDA_R_16F : CUDA_R_16BF;
}

/// A column-major matrix as the library sees it: a row-major one is its transpose.
struct ColumnMajor {
  void* data;
  int64_t leading;  ///< elements from one column to the next
  DType dtype;
};

/// result[m, n] = op(a)[m, k] op(b)[k, n].
struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  ColumnMajor a, b, result;
  bool allow_tf32;
};

std::string work_of(const Product& p, int64_t workspace_bytes) {
  return cat("fc product ", p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", ' ', p.m, ' ', p.n, ' ',
             p.k, " strides ", p.a.leading, ' ', p.b.leading, ' ', p.result.leading, ' ',
             dtype_name(p.a.dtype), " to ", dtype_name(p.result.dtype), p.allow_tf32 ? " tf32" : "",
             " workspace ", workspace_bytes);
}

std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::ostringstream out;
  for (const uint64_t word : algorithm.data) out << std::hex << word << ' ';
  return out.str();
}

std::optional<cublasLtMatmulAlgo_t> parse_algorithm(const std::string& text) {
  std::istringstream in(text);
  cublasLtMatmulAlgo_t algorithm;
  for (uint64_t& word : algorithm.data) in >> std::hex >> word;
  if (in.fail()) return std::nullopt;
  return algorithm;
}

/// One product, for any of its algorithms.
class Matmul {
 public:
  Matmul(const Product& product, const CudaContext& context, std::byte* workspace, int64_t workspace_bytes)
      : product_(product),
        handle_(context.cublaslt),
        stream_(context.stream),
        workspace_(workspace),
        workspace_bytes_(static_cast<size_t>(workspace_bytes)),
        desc_(make_desc(product)),
        a_(product.transpose_a ? layout(product.a, product.k, product.m)
                               : layout(product.a, product.m, product.k)),
        b_(product.transpose_b ? layout(product.b, product.n, product.k)
                               : layout(product.b, product.k, product.n)),
        result_(layout(product.result, product.m, product.n)) {}

  void operator()(const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1.0f, zero = 0.0f;
    check_cublas(cublasLtMatmul(handle_, desc_.get(), &one, product_.a.data, a_.get(), product_.b.data,
                                b_.get(), &zero, product_.result.data, result_.get(), product_.result.data,
                                result_.get(), &algorithm, workspace_, workspace_bytes_, stream_),
                 WHO);
  }

  /// False where an algorithm that an earlier run chose does not fit any more.
  bool takes(const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result;
    return cublasLtMatmulAlgoCheck(handle_, desc_.get(), a_.get(), b_.get(), result_.get(), result_.get(),
                                   &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= workspace_bytes_;
  }

  /// Those that give the same bits each time, the most promising first.
  std::vector<cublasLtMatmulAlgo_t> suggestions() const {
    constexpr int MOST = 8;
    const auto preference = make_owned<cublasLtMatmulPreference_t>(
        [](cublasLtMatmulPreference_t* to) { check_cublas(cublasLtMatmulPreferenceCreate(to), WHO); });
    // Parts of a sum may be added up in FP32 through the workspace; not in place, where their order varies.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check_cublas(
        cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof reductions),
        WHO);
    check_cublas(
        cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes_, sizeof workspace_bytes_),
        WHO);
    std::array<cublasLtMatmulHeuristicResult_t, MOST> found;
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, desc_.get(), a_.get(), b_.get(), result_.get(), result_.get(),
                                       preference.get(), MOST, found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
    check_cublas(status, WHO);
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = found[static_cast<size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    }
    return algorithms;
  }

 private:
  static Owned<cublasLtMatmulDesc_t> make_desc(const Product& product) {
    const cublasComputeType_t compute =
        product.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    auto desc = make_owned<cublasLtMatmulDesc_t>([&](cublasLtMatmulDesc_t* to) {
      check_cublas(cublasLtMatmulDescCreate(to, compute, CUDA_R_32F), WHO);
    });
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transpose) {
      const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
      check_cublas(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &operation, sizeof operation), WHO);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_b);
    return desc;
  }

  static Owned<cublasLtMatrixLayout_t> layout(const ColumnMajor& matrix, int64_t rows, int64_t cols) {
    return make_owned<cublasLtMatrixLayout_t>([&](cublasLtMatrixLayout_t* to) {
      check_cublas(cublasLtMatrixLayoutCreate(to, library_type(matrix.dtype), static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(cols), matrix.leading),
                   WHO);
    });
  }

  Product product_;
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  std::byte* workspace_;
  size_t workspace_bytes_;
  Owned<cublasLtMatmulDesc_t> desc_;
  Owned<cublasLtMatrixLayout_t> a_, b_, result_;
};

/// The algorithm that an earlier run chose, if it still fits; else all that the library suggests.
std::vector<cublasLtMatmulAlgo_t> algorithms_for(const Matmul& matmul, const CudaContext& context,
                                                 const std::string& work) {
  if (const auto chosen = chosen_of_family(context, work, ALGORITHMS))
    if (const auto known = parse_algorithm(*chosen); known && matmul.takes(*known)) return {*known};
  return matmul.suggestions();
}

/// Multiplies with the fastest algorithm; NotSupportedError where the library has none that runs.
Call fastest_product(const Product& product, CudaContext& context, const std::string& node,
                     std::byte* workspace, int64_t workspace_bytes) {
  const auto matmul = std::make_shared<const Matmul>(product, context, workspace, workspace_bytes);
  const std::string work = work_of(product, workspace_bytes);
  std::vector<Way> ways;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms_for(*matmul, context, work))
    ways.push_back({ALGORITHMS, text_of(algorithm),
                    [matmul, algorithm]() -> Call { return [matmul, algorithm] { (*matmul)(algorithm); }; }});
  return fastest(context, node, work, ways);
}

FcMatrix matrix_of(const Binding& binding, Port port) {
  const DTensor& tensor = binding.tensor(port);
  return {binding.data<void>(port), tensor.shape.n(), fc_in_features(tensor.shape),
          tensor.strides[0],        tensor.shape.c(), pixel_stride(tensor)};
}

/// One pass of one layer with its operands.
class Layer {
 public:
  Layer(const Binding& binding, CudaContext& context)
      : node_(cat("fc '", binding.query.layer, "': ", pass_name(binding.pass))),
        fc_(binding.query.attrs),
        context_(context),
        backward_(binding.pass == Pass::BACKWARD),
        dtype_(binding.tensor(Port::X).dtype),
        cap_(binding.query.target.workspace_cap_bytes),
        x_(matrix_of(binding, Port::X)),
        weight_(binding.data<void>(Port::PARAM)) {
    TR_CHECK(binding.tensor(Port::PARAM).dtype == dtype_, TypeError,
             cat("fc '", binding.query.layer, "': weight is ", dtype_name(binding.tensor(Port::PARAM).dtype),
                 ", expected ", dtype_name(dtype_), " as x; bind the copy that is computed with"));
    // Kernels count elements in 32 bits.
    constexpr int64_t MOST = int64_t{1} << 31;
    const int64_t most =
        std::max({x_.rows * x_.row_stride, x_.rows * (fc_.out_features + 8), fc_.out_features * x_.cols});
    TR_CHECK(most < MOST, NotSupportedError,
             cat("fc '", binding.query.layer, "': a matrix has ", most, " elements; it must have fewer than ",
                 MOST, ", reduce the batch or the features"));
    WorkspaceSlices slices(binding.workspace);
    workspace_ = fc_cuda_workspace(binding.query, binding.pass, slices);
    if (!backward_ || fc_.relu) y_ = matrix_of(binding, Port::Y);
    const Port parameters = backward_ ? Port::PARAM_GRAD : Port::PARAM;
    if (fc_.bias) bias_ = binding.data<float>(parameters, 1);
    if (!backward_) return;
    dweight_ = binding.data<void>(Port::PARAM_GRAD);
    dy_ = matrix_of(binding, Port::DY);
    if (binding.has(Port::DX)) dx_ = matrix_of(binding, Port::DX);
  }

  /// The fastest of the operator's own kernels and the library's.
  Call fastest_call() const {
    const std::vector<Way> ways{{"own", "", [this] { return own_call(); }},
                                {"library", "", [this] { return library_call(); }}};
    return fastest(context_, node_, work(), ways);
  }

 private:
  Call own_call() const {
    const cudaStream_t stream = context_.stream;
    if (backward_)
      return [operands = FcBackwardOperands{x_, dy_, dx_, y_.data, weight_, dweight_, bias_}, dtype = dtype_,
              stream] { launch_fc_backward(dtype, operands, stream); };
    return [x = x_, weight = weight_, bias = bias_, relu = fc_.relu, y = y_, dtype = dtype_, stream] {
      launch_fc_forward(dtype, x, weight, bias, relu, y, stream);
    };
  }

  /// Through cuBLASLt; NotSupportedError where that has no algorithm.
  Call library_call() const { return backward_ ? library_backward() : library_forward(); }

  /// All that the choice between the two depends on.
  std::string work() const {
    return cat("fc ", backward_ ? "backward " : "forward ", dtype_name(dtype_), " n", x_.rows, " in", x_.cols,
               " out", fc_.out_features, " channels", x_.channels, '/', x_.pixel_stride,
               fc_.bias ? " bias" : "", fc_.relu ? " relu" : "", dx_.data != nullptr ? " dx" : "",
               context_.allow_tf32 ? " tf32" : "", " workspace ", cap_);
  }

  Call library_forward() const {
    const bool in_place = workspace_.product == nullptr;
    void* to = in_place ? y_.data : workspace_.product;
    const Call multiply = multiplication(
        {true, false, y_.cols, x_.rows, x_.cols, weight(), dense_x(), {to, y_.cols, DType::FP32}, tf32()});
    const Call pack = pack_x();
    const bool finish = !in_place || bias_ != nullptr || fc_.relu;
    return [pack, multiply, finish, product = static_cast<const float*>(to), bias = bias_, relu = fc_.relu,
            y = y_, dtype = dtype_, stream = context_.stream] {
      if (pack) pack();
      multiply();
      if (finish) launch_fc_epilogue(dtype, product, bias, relu, y, stream);
    };
  }

  Call library_backward() const {
    const ColumnMajor dy{fc_.relu ? workspace_.masked_dy : dy_.data, dy_.row_stride, dtype_};
    const ColumnMajor dweight{dweight_, x_.cols, dtype_};
    const Call weights =
        multiplication({false, true, x_.cols, dy_.cols, x_.rows, dense_x(), dy, dweight, tf32()});
    const Call data = data_gradient(dy);
    const Call pack = pack_x();
    const bool prepare_dy = fc_.relu || bias_ != nullptr;
    return [pack, weights, data, prepare_dy, masked = workspace_.masked_dy, dbias = bias_, y = y_.data,
            dy = dy_, dtype = dtype_, stream = context_.stream] {
      if (prepare_dy) launch_fc_mask_and_sum(dtype, dy, y, masked, dbias, stream);
      if (pack) pack();
      weights();
      if (data) data();
    };
  }

  /// dx = dy weight; empty where there is no dx.
  Call data_gradient(const ColumnMajor& dy) const {
    if (dx_.data == nullptr) return {};
    const bool in_place = workspace_.dx == nullptr;
    const ColumnMajor to{in_place ? dx_.data : workspace_.dx, x_.cols, dtype_};
    const Call multiply =
        multiplication({false, false, x_.cols, x_.rows, dy_.cols, weight(), dy, to, tf32()});
    if (in_place) return multiply;
    return [multiply, dx = dx_, from = workspace_.dx, dtype = dtype_, stream = context_.stream] {
      multiply();
      launch_fc_copy_channels(dtype, from, dx.channels, dx.data, dx.pixel_stride, dx.channels,
                              dx.rows * dx.cols / dx.channels, stream);
    };
  }

  /// Takes the channel padding out of x; empty where it has none.
  Call pack_x() const {
    if (workspace_.x == nullptr) return {};
    return [x = x_, to = workspace_.x, dtype = dtype_, stream = context_.stream] {
      launch_fc_copy_channels(dtype, x.data, x.pixel_stride, to, x.channels, x.channels,
                              x.rows * x.cols / x.channels, stream);
    };
  }

  ColumnMajor weight() const { return {weight_, x_.cols, dtype_}; }
  ColumnMajor dense_x() const { return {workspace_.x == nullptr ? x_.data : workspace_.x, x_.cols, dtype_}; }
  bool tf32() const { return dtype_ == DType::FP32 && context_.allow_tf32; }

  Call multiplication(const Product& product) const {
    return fastest_product(product, context_, node_, workspace_.scratch, cap_);
  }

  std::string node_;  ///< for errors
  FcAttributes fc_;
  CudaContext& context_;
  bool backward_;
  DType dtype_;
  int64_t cap_;
  FcMatrix x_, y_, dy_, dx_;
  void* weight_;
  void* dweight_ = nullptr;
  float* bias_ = nullptr;  ///< in BACKWARD its gradient
  FcCudaWorkspace workspace_;
};

class FcCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    WorkspaceSlices slices;
    fc_cuda_workspace(query, pass, slices);
    return {cuda_declines(query.dtype), slices.bytes()};
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    return Layer(binding, cuda(context)).fastest_call();
  }
};

}  // namespace

std::unique_ptr<OpKernels> fc_cuda_kernels();
std::unique_ptr<OpKernels> fc_cuda_kernels() { return std::make_unique<FcCudaKernels>(); }

}  // namespace tr
