// Fully connected layers on CUDA: the operator's own kernels, one launch a pass, or products through cuBLASLt
// with small kernels around them; whichever is faster where it runs.
#include "ops/fc/fc_cuda.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <type_traits>

#include "ops/fc/fc.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

struct Destroy {
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

constexpr std::string_view WHO = "fc";

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

/// Milliseconds of `work` as part of a graph, which is how training runs it.
double time_captured(cudaStream_t stream, const Call& work) {
  constexpr int CALLS = 10, REPEATS = 5;
  struct Capture {
    explicit Capture(cudaStream_t stream_to_capture) : stream(stream_to_capture) {
      check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), WHO);
    }
    ~Capture() {
      if (graph == nullptr) cudaStreamEndCapture(stream, &graph);
      if (executable != nullptr) cudaGraphExecDestroy(executable);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
  };
  work();  // loads the kernels
  Capture capture(stream);
  for (int i = 0; i < CALLS; ++i) work();
  check_cuda(cudaStreamEndCapture(stream, &capture.graph), WHO);
  check_cuda(cudaGraphInstantiate(&capture.executable, capture.graph, 0), WHO);
  const Call launch = [&] { check_cuda(cudaGraphLaunch(capture.executable, stream), WHO); };
  return time_on_stream(stream, launch, REPEATS) / CALLS;
}

/// One product with its algorithm, which is the fastest of those that give the same bits each time.
class Matmul {
 public:
  Matmul(const Product& product, CudaContext& context, std::byte* workspace, int64_t workspace_bytes)
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
        result_(layout(product.result, product.m, product.n)) {
    const std::string work = work_of(product, workspace_bytes);
    if (const auto known = context.algorithms->find(work)) choose_known(*known);
    if (chosen_) return;
    choose_fastest();
    if (chosen_) context.algorithms->store(work, text_of(algorithm_));
  }

  /// False where the library has no algorithm.
  bool supported() const { return chosen_; }
  void operator()() const { check_cublas(run(algorithm_), WHO); }

 private:
  static Owned<cublasLtMatmulDesc_t> make_desc(const Product& product) {
    cublasLtMatmulDesc_t desc = nullptr;
    const cublasComputeType_t compute =
        product.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F), WHO);
    Owned<cublasLtMatmulDesc_t> owned(desc);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transpose) {
      const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
      check_cublas(cublasLtMatmulDescSetAttribute(desc, attribute, &operation, sizeof operation), WHO);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_b);
    return owned;
  }

  static Owned<cublasLtMatrixLayout_t> layout(const ColumnMajor& matrix, int64_t rows, int64_t cols) {
    cublasLtMatrixLayout_t made = nullptr;
    check_cublas(cublasLtMatrixLayoutCreate(&made, library_type(matrix.dtype), static_cast<uint64_t>(rows),
                                            static_cast<uint64_t>(cols), matrix.leading),
                 WHO);
    return Owned<cublasLtMatrixLayout_t>(made);
  }

  /// An algorithm that an earlier run stored, if it still fits.
  void choose_known(const std::string& text) {
    const auto known = parse_algorithm(text);
    if (!known) return;
    cublasLtMatmulHeuristicResult_t result;
    chosen_ = cublasLtMatmulAlgoCheck(handle_, desc_.get(), a_.get(), b_.get(), result_.get(), result_.get(),
                                      &*known, &result) == CUBLAS_STATUS_SUCCESS &&
              result.workspaceSize <= workspace_bytes_;
    if (chosen_) algorithm_ = *known;
  }

  void choose_fastest() {
    double least = 0.0;
    for (const cublasLtMatmulAlgo_t& candidate : candidates()) {
      if (run(candidate) != CUBLAS_STATUS_SUCCESS) continue;
      const double ms = time_captured(stream_, [&] { check_cublas(run(candidate), WHO); });
      if (chosen_ && ms >= least) continue;
      chosen_ = true;
      least = ms;
      algorithm_ = candidate;
    }
  }

  std::vector<cublasLtMatmulAlgo_t> candidates() const {
    constexpr int MOST = 8;
    cublasLtMatmulPreference_t made = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&made), WHO);
    const Owned<cublasLtMatmulPreference_t> preference(made);
    // Parts of a sum may be added up in FP32 through the workspace; not in place, where their order varies.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check_cublas(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reductions, sizeof reductions),
                 WHO);
    check_cublas(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes_, sizeof workspace_bytes_),
                 WHO);
    std::array<cublasLtMatmulHeuristicResult_t, MOST> found;
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, desc_.get(), a_.get(), b_.get(), result_.get(), result_.get(),
                                       made, MOST, found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
    check_cublas(status, WHO);
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = found[static_cast<size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    }
    return algorithms;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1.0f, zero = 0.0f;
    return cublasLtMatmul(handle_, desc_.get(), &one, product_.a.data, a_.get(), product_.b.data, b_.get(),
                          &zero, product_.result.data, result_.get(), product_.result.data, result_.get(),
                          &algorithm, workspace_, workspace_bytes_, stream_);
  }

  Product product_;
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  std::byte* workspace_;
  size_t workspace_bytes_;
  Owned<cublasLtMatmulDesc_t> desc_;
  Owned<cublasLtMatrixLayout_t> a_, b_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
  bool chosen_ = false;
};

FcMatrix matrix_of(const Binding& binding, Port port) {
  const DTensor& tensor = binding.tensor(port);
  return {binding.data<void>(port), tensor.shape.n(), fc_in_features(tensor.shape),
          tensor.strides[0],        tensor.shape.c(), pixel_stride(tensor)};
}

/// One pass of one layer with its operands.
class Layer {
 public:
  Layer(const Binding& binding, CudaContext& context)
      : fc_(binding.query.attrs),
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

  Call own_call() const {
    const cudaStream_t stream = context_.stream;
    if (backward_)
      return [operands = FcBackwardOperands{x_, dy_, dx_, y_.data, weight_, dweight_, bias_}, dtype = dtype_,
              stream] { launch_fc_backward(dtype, operands, stream); };
    return [x = x_, weight = weight_, bias = bias_, relu = fc_.relu, y = y_, dtype = dtype_, stream] {
      launch_fc_forward(dtype, x, weight, bias, relu, y, stream);
    };
  }

  /// Through cuBLASLt; empty where that has no algorithm.
  Call library_call() const { return backward_ ? library_backward() : library_forward(); }

  /// What decides which of the two is faster.
  std::string work() const {
    return cat("fc ", backward_ ? "backward " : "forward ", dtype_name(dtype_), " n", x_.rows, " in", x_.cols,
               " out", fc_.out_features, " channels", x_.channels, '/', x_.pixel_stride,
               fc_.bias ? " bias" : "", fc_.relu ? " relu" : "", dx_.data != nullptr ? " dx" : "",
               context_.allow_tf32 ? " tf32" : "", " workspace ", cap_);
  }

 private:
  Call library_forward() const {
    const bool in_place = workspace_.product == nullptr;
    void* to = in_place ? y_.data : workspace_.product;
    const auto multiply = matmul(
        {true, false, y_.cols, x_.rows, x_.cols, weight(), dense_x(), {to, y_.cols, DType::FP32}, tf32()});
    if (!multiply->supported()) return {};
    const Call pack = pack_x();
    const bool finish = !in_place || bias_ != nullptr || fc_.relu;
    return [pack, multiply, finish, product = static_cast<const float*>(to), bias = bias_, relu = fc_.relu,
            y = y_, dtype = dtype_, stream = context_.stream] {
      if (pack) pack();
      (*multiply)();
      if (finish) launch_fc_epilogue(dtype, product, bias, relu, y, stream);
    };
  }

  Call library_backward() const {
    const ColumnMajor dy{fc_.relu ? workspace_.masked_dy : dy_.data, dy_.row_stride, dtype_};
    const ColumnMajor dweight{dweight_, x_.cols, dtype_};
    const auto weights = matmul({false, true, x_.cols, dy_.cols, x_.rows, dense_x(), dy, dweight, tf32()});
    if (!weights->supported()) return {};
    const Call data = data_gradient(dy);
    if (dx_.data != nullptr && !data) return {};
    const Call pack = pack_x();
    const bool prepare_dy = fc_.relu || bias_ != nullptr;
    return [pack, weights, data, prepare_dy, masked = workspace_.masked_dy, dbias = bias_, y = y_.data,
            dy = dy_, dtype = dtype_, stream = context_.stream] {
      if (prepare_dy) launch_fc_mask_and_sum(dtype, dy, y, masked, dbias, stream);
      if (pack) pack();
      (*weights)();
      if (data) data();
    };
  }

  /// dx = dy weight; empty where there is no dx, and where the library has no algorithm.
  Call data_gradient(const ColumnMajor& dy) const {
    if (dx_.data == nullptr) return {};
    const bool in_place = workspace_.dx == nullptr;
    const ColumnMajor to{in_place ? dx_.data : workspace_.dx, x_.cols, dtype_};
    const auto multiply = matmul({false, false, x_.cols, x_.rows, dy_.cols, weight(), dy, to, tf32()});
    if (!multiply->supported()) return {};
    if (in_place) return [multiply] { (*multiply)(); };
    return [multiply, dx = dx_, from = workspace_.dx, dtype = dtype_, stream = context_.stream] {
      (*multiply)();
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

  std::shared_ptr<const Matmul> matmul(const Product& product) const {
    return std::make_shared<const Matmul>(product, context_, workspace_.scratch, cap_);
  }

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

  Call prepare(const Binding& binding, KernelContext& kernel_context) const override {
    CudaContext& context = cuda(kernel_context);
    const Layer layer(binding, context);
    const Call own = layer.own_call();
    const std::string work = layer.work();
    const auto known = context.algorithms->find(work);
    if (known == "own") return own;
    const Call library = layer.library_call();
    if (!library) return own;
    if (known == "library") return library;
    const bool own_is_faster = time_captured(context.stream, own) <= time_captured(context.stream, library);
    context.algorithms->store(work, own_is_faster ? "own" : "library");
    return own_is_faster ? own : library;
  }
};

}  // namespace

std::unique_ptr<OpKernels> fc_cuda_kernels();
std::unique_ptr<OpKernels> fc_cuda_kernels() { return std::make_unique<FcCudaKernels>(); }

}  // namespace tr
