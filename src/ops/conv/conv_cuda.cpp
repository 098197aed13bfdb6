// Convolution through cuDNN's operation graphs or our own kernels, the fastest by timing. cuDNN convolves
// maps that are stored with padded channels with the padding, which holds zeros, and with padded weights.
#include "ops/conv/conv_cuda.h"

#include <algorithm>
#include <limits>

#include "ops/conv/conv_workspace.h"
#include "ops/conv/first_layer_cuda.h"
#include "ops/support/cuda.h"
#include "ops/support/cudnn_graph.h"
#include "ops/support/fastest.h"

namespace tr {
namespace {

/// Ids of tensors in cuDNN's graphs.
enum Id : int64_t { X = 1, WEIGHT, Y, PRODUCT, BIAS, SUM, SQUARES };

/// The most shared memory that the card gives to one block.
int64_t shared_bytes_of_a_block() {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "conv: shared memory");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "conv: shared memory");
  return bytes;
}

/// One node while it is prepared.
class ConvPreparation {
 public:
  ConvPreparation(const Binding& binding, CudaContext& context)
      : binding_(binding),
        query_(binding.query),
        conv_(query_.attrs),
        context_(context),
        stream_(context.stream),
        dtype_(query_.dtype),
        workspace_(query_, binding.pass, binding.workspace),
        geometry_(make_geometry()) {
    check_operands();
  }

  Call forward() const {
    const int rows = binding_.pass == Pass::FORWARD ? query_.statistics : 0;
    const bool statistics = rows >= 2;
    const float* bias = conv_.bias && rows == 0 ? data<float>(Port::PARAM, 1) : nullptr;
    Calls finish;
    if (bias != nullptr || conv_.relu)
      finish.push_back([dtype = dtype_, y = data<void>(Port::Y), map = y_map(), bias, relu = conv_.relu,
                        stream = stream_] { launch_bias_relu(dtype, y, map, bias, relu, stream); });
    else
      add_zero_padding(Port::Y, y_map(), finish);
    if (statistics) {
      finish.push_back([dtype = dtype_, y = data<const void>(Port::Y), map = y_map(), partials = partials(),
                        sums = statistics_row(0), squares = statistics_row(1), stream = stream_] {
        launch_channel_sums(dtype, y, map, partials, sums, squares, stream);
      });
    }
    if (rows > 0) add_offset(rows, finish);
    std::vector<Way> ways;
    const bool fusible = cudnn_can() && dtype_ != DType::FP32 && workspace_.y_stride == query_.y.c();
    // cuDNN's blocks add their sums in the order they end: other bits each time.
    if (fusible && statistics && !context_.deterministic) {
      Calls after;
      add_offset(rows, after);
      add_cudnn(ways, "cuDNN with statistics", statistics_graph(),
                {{X, data<void>(Port::X)},
                 {WEIGHT, cudnn_weight()},
                 {Y, data<void>(Port::Y)},
                 {SUM, statistics_row(0)},
                 {SQUARES, statistics_row(1)}},
                padded_weight(), after);
    }
    if (fusible && bias != nullptr && !conv_.relu)
      add_cudnn(ways, "cuDNN with bias", bias_graph(),
                {{X, data<void>(Port::X)},
                 {WEIGHT, cudnn_weight()},
                 {Y, data<void>(Port::Y)},
                 {BIAS, data<void>(Port::PARAM, 1)}},
                padded_weight(), {});
    if (cudnn_can())
      add_cudnn(ways, "cuDNN", plain_graph(CudnnConvolutionKind::FORWARD),
                {{X, data<void>(Port::X)}, {WEIGHT, cudnn_weight()}, {Y, data<void>(Port::Y)}},
                padded_weight(), finish);
    if (first_layer()) {
      Calls after;
      if (rows > 0) add_offset(rows, after);
      const FirstLayerForward operands{data<const void>(Port::X),
                                       data<const void>(Port::PARAM),
                                       bias,
                                       conv_.relu,
                                       data<void>(Port::Y),
                                       statistics ? statistics_row(0) : nullptr,
                                       reinterpret_cast<float*>(workspace_.scratch),
                                       workspace_.scratch_bytes};
      add_own(ways, "first layer", {}, after, [dtype = dtype_, g = geometry_, operands, stream = stream_] {
        launch_first_layer_forward(dtype, g, operands, stream);
      });
    }
    add_direct(ways, {}, finish,
               [dtype = dtype_, g = geometry_, x = data<const void>(Port::X),
                weight = data<const void>(Port::PARAM), y = data<void>(Port::Y),
                stream = stream_] { launch_direct_forward(dtype, g, x, weight, y, stream); });
    return fastest(context_, who(), signature("forward", rows), ways);
  }

  Call backward_weight() const {
    Calls mask, finish;
    if (conv_.relu)
      mask.push_back([dtype = dtype_, y = data<const void>(Port::Y), dy = data<void>(Port::DY),
                      elements = binding_.tensor(Port::Y).physical_elements(),
                      stream = stream_] { launch_relu_mask(dtype, y, dy, elements, stream); });
    if (conv_.bias) add_bias_gradient(finish);
    std::vector<Way> ways;
    if (cudnn_can()) {
      Calls after;
      if (workspace_.padded)
        after.push_back([dtype = dtype_, padded = workspace_.weight, rows = y_rows(),
                         columns = workspace_.x_stride, dw = data<void>(Port::PARAM_GRAD),
                         dw_rows = weight_rows(), dw_columns = query_.x[0].c(), stream = stream_] {
          launch_copy_matrix(dtype, padded, rows, columns, dw, dw_rows, dw_columns, stream);
        });
      after.insert(after.end(), finish.begin(), finish.end());
      void* gradient = workspace_.padded ? workspace_.weight : data<void>(Port::PARAM_GRAD);
      add_cudnn(ways, "cuDNN", plain_graph(CudnnConvolutionKind::BACKWARD_WEIGHT),
                {{X, data<void>(Port::X)}, {WEIGHT, gradient}, {Y, data<void>(Port::DY)}}, mask, after);
    }
    if (first_layer())
      add_own(ways, "first layer", mask, finish,
              [dtype = dtype_, g = geometry_, x = data<const void>(Port::X), dy = data<const void>(Port::DY),
               dw = data<void>(Port::PARAM_GRAD), partials = reinterpret_cast<float*>(workspace_.scratch),
               bytes = workspace_.scratch_bytes, stream = stream_] {
                launch_first_layer_backward_weight(dtype, g, x, dy, dw, partials, bytes, stream);
              });
    add_direct(ways, mask, finish,
               [dtype = dtype_, g = geometry_, x = data<const void>(Port::X), dy = data<const void>(Port::DY),
                dw = data<void>(Port::PARAM_GRAD), partials = reinterpret_cast<float*>(workspace_.scratch),
                bytes = workspace_.scratch_bytes, stream = stream_] {
                 launch_direct_backward_weight(dtype, g, x, dy, dw, partials, bytes, stream);
               });
    return fastest(context_, who(), signature("backward weight", query_.statistics > 0 ? 1 : 0), ways);
  }

  Call backward_data() const {
    Calls finish;
    add_zero_padding(Port::DX, {pixels_of(query_.x[0]), query_.x[0].c(), workspace_.x_stride}, finish);
    std::vector<Way> ways;
    if (cudnn_can())
      add_cudnn(ways, "cuDNN", plain_graph(CudnnConvolutionKind::BACKWARD_DATA),
                {{X, data<void>(Port::DX)}, {WEIGHT, cudnn_weight()}, {Y, data<void>(Port::DY)}},
                padded_weight(), finish);
    add_direct(ways, {}, finish,
               [dtype = dtype_, g = geometry_, dy = data<const void>(Port::DY),
                weight = data<const void>(Port::PARAM), dx = data<void>(Port::DX),
                stream = stream_] { launch_direct_backward_data(dtype, g, dy, weight, dx, stream); });
    return fastest(context_, who(), signature("backward data", 0), ways);
  }

 private:
  using Calls = std::vector<Call>;

  std::string who() const { return cat("conv '", query_.layer, "': ", pass_name(binding_.pass)); }

  template <typename T>
  T* data(Port port, int index = 0) const {
    return reinterpret_cast<T*>(binding_.data<std::byte>(port, index));
  }
  double* partials() const { return reinterpret_cast<double*>(workspace_.partials); }
  float* statistics_row(int64_t row) const { return data<float>(Port::STATISTICS) + row * query_.y.c(); }
  FeatureMap y_map() const { return {pixels_of(query_.y), query_.y.c(), workspace_.y_stride}; }

  ConvGeometry make_geometry() const {
    // Kernels count pixels and channels in 32 bits, with room for the last tile.
    static constexpr int64_t MOST = std::numeric_limits<int>::max() / 2;
    const Shape &x = query_.x[0], &y = query_.y;
    const int64_t most =
        std::max({pixels_of(x), pixels_of(y), conv_.kernel * conv_.kernel * x.c(),
                  conv_.kernel * conv_.kernel * y.c(), x.h() + 2 * conv_.padding, x.w() + 2 * conv_.padding});
    TR_CHECK(
        most < MOST, NotSupportedError,
        cat(who(), ": input ", x, ", output ", y, ", kernel ", conv_.kernel, ", padding ", conv_.padding,
            ": a count of pixels or products is ", most, "; it must be below ", MOST, ", reduce the batch"));
    const auto narrow = [](int64_t value) { return static_cast<int>(std::min<int64_t>(value, MOST)); };
    return {narrow(x.n()),
            narrow(x.h()),
            narrow(x.w()),
            narrow(x.c()),
            narrow(y.h()),
            narrow(y.w()),
            narrow(y.c()),
            narrow(conv_.kernel),
            narrow(conv_.stride),
            narrow(conv_.padding),
            narrow(conv_.dilation),
            narrow(conv_.groups),
            narrow(workspace_.x_stride),
            narrow(workspace_.y_stride)};
  }

  /// The workspace was planned from the query alone: what is bound must agree.
  void check_operands() const {
    for (const Operand& operand : binding_.operands) {
      const bool is_x = operand.port == Port::X || operand.port == Port::DX;
      const bool is_y = operand.port == Port::Y || operand.port == Port::DY;
      const bool is_weight =
          (operand.port == Port::PARAM || operand.port == Port::PARAM_GRAD) && operand.index == 0;
      if (!is_x && !is_y && !is_weight) continue;
      TR_CHECK(operand.tensor.dtype == dtype_, TypeError,
               cat(who(), ": ", port_name(operand.port), " is ", dtype_name(operand.tensor.dtype), "; ",
                   dtype_name(dtype_), " expected; bind tensors of one type"));
      const int64_t expected = is_x ? workspace_.x_stride : workspace_.y_stride;
      TR_CHECK(is_weight || pixel_stride(operand.tensor) == expected, ShapeError,
               cat(who(), ": ", port_name(operand.port), " has ", pixel_stride(operand.tensor),
                   " elements from pixel to pixel; ", expected, " expected; bind tensors of the plan"));
    }
  }

  bool first_layer() const {
    return first_layer_takes(dtype_, geometry_, workspace_.scratch_bytes, shared_bytes_of_a_block());
  }
  /// cuDNN convolves padded channels as if they were channels, which groups would cut in the wrong places.
  bool cudnn_can() const { return conv_.groups == 1 || !workspace_.padded; }
  /// Rows and columns of the weights as a matrix [K * R * S, C/groups], and rows of their padded copy.
  int64_t weight_rows() const { return query_.y.c() * conv_.kernel * conv_.kernel; }
  int64_t y_rows() const { return workspace_.y_stride * conv_.kernel * conv_.kernel; }

  void* cudnn_weight() const { return workspace_.padded ? workspace_.weight : data<void>(Port::PARAM); }
  Calls padded_weight() const {
    if (!workspace_.padded) return {};
    return {[dtype = dtype_, weight = data<const void>(Port::PARAM), rows = weight_rows(),
             columns = query_.x[0].c(), padded = workspace_.weight, padded_rows = y_rows(),
             padded_columns = workspace_.x_stride, stream = stream_] {
      launch_copy_matrix(dtype, weight, rows, columns, padded, padded_rows, padded_columns, stream);
    }};
  }

  void add_zero_padding(Port port, const FeatureMap& map, Calls& calls) const {
    // Zero weights give zeros there, except where an operand is infinite or NaN.
    if (map.stride == map.channels) return;
    calls.push_back([dtype = dtype_, to = data<void>(port), map, stream = stream_] {
      launch_zero_padding(dtype, to, map, stream);
    });
  }

  /// The last row of the statistics, where there is a bias.
  void add_offset(int rows, Calls& calls) const {
    if (!conv_.bias) return;
    calls.push_back([to = statistics_row(rows - 1), from = data<const float>(Port::PARAM, 1),
                     bytes = static_cast<size_t>(query_.y.c()) * sizeof(float), stream = stream_] {
      check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "conv: offset");
    });
  }

  /// Exactly zero before batch norm, which takes any constant away.
  void add_bias_gradient(Calls& calls) const {
    float* gradient = data<float>(Port::PARAM_GRAD, 1);
    if (query_.statistics > 0)
      calls.push_back(
          [gradient, bytes = static_cast<size_t>(query_.y.c()) * sizeof(float), stream = stream_] {
            check_cuda(cudaMemsetAsync(gradient, 0, bytes, stream), "conv: bias gradient");
          });
    else
      calls.push_back(
          [dtype = dtype_, dy = data<const void>(Port::DY), map = y_map(), partials = partials(), gradient,
           stream = stream_] { launch_channel_sums(dtype, dy, map, partials, gradient, nullptr, stream); });
  }

  /// x, weight and y of a graph, channels as they are stored.
  struct GraphTensors {
    CudnnDescriptor x, weight, y;
  };
  GraphTensors add_tensors(CudnnGraph& graph, const CudnnTensor& y) const {
    const Shape& x = query_.x[0];
    const int64_t x_channels = workspace_.x_stride, y_channels = workspace_.y_stride;
    const int64_t group_channels = x_channels / conv_.groups;
    const Shape filter(y_channels, conv_.kernel, conv_.kernel, group_channels);
    return {graph.tensor(nhwc_tensor(X, dtype_, Shape(x.n(), x.h(), x.w(), x_channels), x_channels)),
            graph.tensor(nhwc_tensor(WEIGHT, dtype_, filter, group_channels)), graph.tensor(y)};
  }
  CudnnTensor y_tensor(int64_t id, DType dtype) const {
    const Shape& y = query_.y;
    return nhwc_tensor(id, dtype, Shape(y.n(), y.h(), y.w(), workspace_.y_stride), workspace_.y_stride);
  }
  CudnnTensor channel_tensor(int64_t id) const {
    return nhwc_tensor(id, DType::FP32, Shape(1, 1, 1, query_.y.c()), query_.y.c());
  }
  CudnnConvolution cudnn_convolution() const { return {conv_.padding, conv_.stride, conv_.dilation}; }

  CudnnGraph plain_graph(CudnnConvolutionKind kind) const {
    CudnnGraph graph;
    const GraphTensors tensors = add_tensors(graph, y_tensor(Y, dtype_));
    graph.convolution(kind, cudnn_convolution(), tensors.x, tensors.weight, tensors.y);
    return graph;
  }
  CudnnGraph statistics_graph() const {
    CudnnGraph graph;
    const GraphTensors tensors = add_tensors(graph, y_tensor(Y, dtype_));
    const CudnnDescriptor sum = graph.tensor(channel_tensor(SUM)),
                          squares = graph.tensor(channel_tensor(SQUARES));
    graph.convolution(CudnnConvolutionKind::FORWARD, cudnn_convolution(), tensors.x, tensors.weight,
                      tensors.y);
    graph.statistics(tensors.y, sum, squares);
    return graph;
  }
  /// The bias joins the FP32 sum before that is rounded.
  CudnnGraph bias_graph() const {
    CudnnGraph graph;
    CudnnTensor product = y_tensor(PRODUCT, DType::FP32);
    product.is_virtual = true;
    const GraphTensors tensors = add_tensors(graph, product);
    const CudnnDescriptor bias = graph.tensor(channel_tensor(BIAS)), y = graph.tensor(y_tensor(Y, dtype_));
    graph.convolution(CudnnConvolutionKind::FORWARD, cudnn_convolution(), tensors.x, tensors.weight,
                      tensors.y);
    graph.add(tensors.y, bias, y);
    return graph;
  }

  /// `calls` one after the other; a failed launch throws.
  static Call in_order(Calls calls, std::string who) {
    return [calls = std::move(calls), who = std::move(who)] {
      for (const Call& call : calls) call();
      check_cuda(cudaGetLastError(), who);
    };
  }

  void add_cudnn(std::vector<Way>& ways, const std::string& family, const CudnnGraph& graph,
                 const CudnnGraph::Pointers& pointers, const Calls& before, const Calls& after) const {
    const CudnnRules rules{context_.deterministic, dtype_ != DType::FP32 || context_.allow_tf32};
    for (const CudnnEngine& engine : graph.engines(context_.cudnn, rules))
      ways.push_back({family, engine.name, [this, graph, engine, pointers, before, after]() -> Call {
                        Call plan = graph.plan(context_.cudnn, engine, pointers, workspace_.scratch,
                                               workspace_.scratch_bytes);
                        if (!plan) return nullptr;
                        Calls calls = before;
                        calls.push_back(std::move(plan));
                        calls.insert(calls.end(), after.begin(), after.end());
                        return in_order(std::move(calls), who());
                      }});
  }

  /// Kernels of our own.
  void add_own(std::vector<Way>& ways, const std::string& family, const Calls& before, const Calls& after,
               const Call& kernels, bool last_resort = false) const {
    Calls calls = before;
    calls.push_back(kernels);
    calls.insert(calls.end(), after.begin(), after.end());
    ways.push_back({family, "", [call = in_order(std::move(calls), who())] { return call; }, last_resort});
  }
  /// cuDNN is behind only where it may not use tensor cores, or with groups.
  void add_direct(std::vector<Way>& ways, const Calls& before, const Calls& after,
                  const Call& kernels) const {
    add_own(ways, "direct", before, after, kernels, dtype_ != DType::FP32 && conv_.groups == 1);
  }

  std::string signature(std::string_view work, int statistics) const {
    return cat("conv ", work, ' ', dtype_name(dtype_), " x ", query_.x[0], '/', workspace_.x_stride, " y ",
               query_.y, '/', workspace_.y_stride, " kernel ", conv_.kernel, " stride ", conv_.stride,
               " padding ", conv_.padding, " dilation ", conv_.dilation, " groups ", conv_.groups,
               conv_.bias ? " bias" : "", conv_.relu ? " relu" : "",
               statistics > 0 ? cat(" statistics ", statistics) : "", " workspace ", workspace_.scratch_bytes,
               context_.deterministic ? " deterministic" : "", context_.allow_tf32 ? " tf32" : "");
  }

  const Binding& binding_;
  const OpQuery& query_;
  const ConvAttributes conv_;
  CudaContext& context_;
  const cudaStream_t stream_;
  const DType dtype_;
  const ConvWorkspace workspace_;
  const ConvGeometry geometry_;
};

class ConvCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    return {cuda_declines(query.dtype), ConvWorkspace(query, pass).bytes};
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const ConvPreparation preparation(binding, cuda(context));
    switch (binding.pass) {
      case Pass::BACKWARD_WEIGHT:
        return preparation.backward_weight();
      case Pass::BACKWARD_DATA:
        return preparation.backward_data();
      default:
        return preparation.forward();
    }
  }
};

}  // namespace

std::unique_ptr<OpKernels> conv_cuda_kernels();
std::unique_ptr<OpKernels> conv_cuda_kernels() { return std::make_unique<ConvCudaKernels>(); }

}  // namespace tr
