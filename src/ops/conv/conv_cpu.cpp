// Convolution through oneDNN, in FP32 and where the CPU multiplies it in BF16: data stay dense NHWC in the
// arena, weights take the library's layout inside the workspace.
// https://oneapi-src.github.io/oneDNN/v2.6/dev_guide_convolution.html
#include "ops/conv/conv.h"
#include "ops/conv/conv_weight_gradient.h"
#include "ops/support/dnnl_weights.h"
#include "ops/support/fused_relu.h"

namespace tr {
namespace {

using dnnl::memory;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

constexpr auto DIRECT = dnnl::algorithm::convolution_direct;

/// The convolution in oneDNN's terms.
struct Problem {
  explicit Problem(const OpQuery& query) {
    const ConvAttributes conv(query.attrs);
    const Shape weight = conv.weight_shape(query.x[0].c());
    const memory::data_type type = dnnl_type(query.dtype);
    x = nhwc_desc(query.x[0], query.dtype);
    y = nhwc_desc(query.y, query.dtype);
    const bool grouped = conv.groups > 1;
    memory::dims dims{weight.n(), weight.c(), weight.h(), weight.w()};
    if (grouped) {
      dims[0] /= conv.groups;
      dims.insert(dims.begin(), conv.groups);
    }
    arena_weights = {dims, type, grouped ? memory::format_tag::gohwi : memory::format_tag::ohwi};
    any_weights = {dims, type, memory::format_tag::any};
    if (conv.bias) bias = {{conv.out_channels}, memory::data_type::f32, memory::format_tag::x};
    stride = {conv.stride, conv.stride};
    dilation = {conv.dilation - 1, conv.dilation - 1};
    padding = {conv.padding, conv.padding};
  }

  Forward::primitive_desc forward(const dnnl::engine& engine, dnnl::prop_kind kind) const {
    return {{kind, DIRECT, x, any_weights, bias, y, stride, dilation, padding, padding},
            user_scratchpad(),
            engine};
  }
  BackwardData::primitive_desc backward_data(const dnnl::engine& engine) const {
    return {{DIRECT, x, any_weights, y, stride, dilation, padding, padding},
            user_scratchpad(),
            engine,
            forward(engine, dnnl::prop_kind::forward_training)};
  }
  BackwardWeights::primitive_desc backward_weights(const dnnl::engine& engine) const {
    // next_impl() reads these again: they must outlive the search.
    const BackwardWeights::desc operation(DIRECT, x, any_weights, bias, y, stride, dilation, padding,
                                          padding);
    const dnnl::primitive_attr attr = user_scratchpad();
    const Forward::primitive_desc hint = forward(engine, dnnl::prop_kind::forward_training);
    BackwardWeights::primitive_desc desc(operation, attr, engine, hint);
    // oneDNN 2.6's strided 1x1 kernels read undefined scratch where channels do not fill a vector; the next
    // implementation does not. The recorded case conv_1x1_stride2_few_channels shows it.
    constexpr int64_t WIDEST_VECTOR = 16;
    const bool fills_vectors = x.dims()[1] % WIDEST_VECTOR == 0 && y.dims()[1] % WIDEST_VECTOR == 0;
    while (stride[0] > 1 && !fills_vectors &&
           std::string_view(desc.impl_info_str()).find("1x1") != std::string_view::npos)
      if (!desc.next_impl()) throw dnnl::error(dnnl_unimplemented, "no sound strided 1x1 weight gradient");
    return desc;
  }

  memory::desc x, y, arena_weights, any_weights, bias;  ///< bias is a zero descriptor where there is none
  memory::dims stride, dilation, padding;
};

dnnl::prop_kind forward_kind(Pass pass) {
  return pass == Pass::FORWARD ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

/// The weights of one pass: offer() and prepare() take the workspace from here.
DnnlWeights weights_of(const Problem& problem, const Forward::primitive_desc& desc,
                       const dnnl::engine& engine) {
  return {engine, problem.arena_weights, desc.weights_desc(), desc.scratchpad_desc(), WeightUse::READ};
}
DnnlWeights weights_of(const Problem& problem, const BackwardData::primitive_desc& desc,
                       const dnnl::engine& engine) {
  return {engine, problem.arena_weights, desc.weights_desc(), desc.scratchpad_desc(), WeightUse::READ};
}
DnnlWeights weights_of(const Problem& problem, const BackwardWeights::primitive_desc& desc,
                       const dnnl::engine& engine) {
  return {engine, problem.arena_weights, desc.diff_weights_desc(), desc.scratchpad_desc(), WeightUse::WRITE};
}

class ConvCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    if (std::string declined = dnnl_declines(query); !declined.empty()) return {std::move(declined), 0};
    const ThreadsOf threads(query.target);
    const ConvAttributes conv(query.attrs);
    if (pass == Pass::BACKWARD_WEIGHT && has_own_weight_gradient(query))
      return {{}, ConvWeightGradient(conv, query.x[0], query.y).workspace_bytes()};
    const Problem problem(query);
    const dnnl::engine engine = offer_engine();
    try {
      return offer_of(query, problem, pass, engine);
    } catch (const dnnl::error& error) {
      return {cat("oneDNN has no such convolution: ", error.message), 0};
    }
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const ThreadsOf threads(binding.query.target);
    const Problem problem(binding.query);
    CpuContext& lent = cpu(context);
    try {
      switch (binding.pass) {
        case Pass::BACKWARD_WEIGHT:
          return backward_weights(binding, problem, lent);
        case Pass::BACKWARD_DATA:
          return backward_data(binding, problem, lent);
        default:
          return forward(binding, problem, lent);
      }
    } catch (const dnnl::error& error) {
      throw Error(ErrorKind::DeviceError, cat("conv '", binding.query.layer, "': ", pass_name(binding.pass),
                                              " could not be prepared by oneDNN: ", error.message));
    }
  }

 private:
  static bool has_own_weight_gradient(const OpQuery& query) {
    return query.dtype == DType::FP32 && ConvWeightGradient::fits(ConvAttributes(query.attrs), query.x[0]);
  }

  static Offer offer_of(const OpQuery& query, const Problem& problem, Pass pass, const dnnl::engine& engine) {
    const auto offer = [&](const auto& desc) {
      return Offer{dnnl_declines(query, desc), weights_of(problem, desc, engine).workspace_bytes()};
    };
    switch (pass) {
      case Pass::BACKWARD_WEIGHT:
        return offer(problem.backward_weights(engine));
      case Pass::BACKWARD_DATA:
        return offer(problem.backward_data(engine));
      default:
        return offer(problem.forward(engine, forward_kind(pass)));
    }
  }

  static Call forward(const Binding& binding, const Problem& problem, const CpuContext& context) {
    const Forward::primitive_desc desc = problem.forward(context.engine, forward_kind(binding.pass));
    const auto placed = weights_of(problem, desc, context.engine)
                            .place(context, binding.data<void>(Port::PARAM), binding.workspace);
    const Call conv =
        with_reorder(placed, WeightUse::READ,
                     DnnlCall(Forward(desc), context.stream,
                              {{DNNL_ARG_SRC, memory(problem.x, context.engine, binding.data<void>(Port::X))},
                               {DNNL_ARG_WEIGHTS, placed.weights},
                               {DNNL_ARG_BIAS, bias_memory(binding, problem, context, Port::PARAM)},
                               {DNNL_ARG_DST, memory(problem.y, context.engine, binding.data<void>(Port::Y))},
                               {DNNL_ARG_SCRATCHPAD, placed.scratchpad}}));
    return ConvAttributes(binding.query.attrs).relu ? relu_after(binding, conv) : conv;
  }

  static Call backward_weights(const Binding& binding, const Problem& problem, const CpuContext& context) {
    const OpQuery& query = binding.query;
    const ConvAttributes conv(query.attrs);
    const Call gradient =
        has_own_weight_gradient(query)
            ? ConvWeightGradient(conv, query.x[0], query.y)
                  .bind(binding.data<const float>(Port::X), binding.data<const float>(Port::DY),
                        binding.data<float>(Port::PARAM_GRAD, 0),
                        conv.bias ? binding.data<float>(Port::PARAM_GRAD, 1) : nullptr, binding.workspace)
            : dnnl_backward_weights(binding, problem, context);
    return conv.relu ? relu_before(binding, gradient) : gradient;
  }

  static Call dnnl_backward_weights(const Binding& binding, const Problem& problem,
                                    const CpuContext& context) {
    const BackwardWeights::primitive_desc desc = problem.backward_weights(context.engine);
    const auto placed = weights_of(problem, desc, context.engine)
                            .place(context, binding.data<void>(Port::PARAM_GRAD), binding.workspace);
    return with_reorder(
        placed, WeightUse::WRITE,
        DnnlCall(BackwardWeights(desc), context.stream,
                 {{DNNL_ARG_SRC, memory(problem.x, context.engine, binding.data<void>(Port::X))},
                  {DNNL_ARG_DIFF_WEIGHTS, placed.weights},
                  {DNNL_ARG_DIFF_BIAS, bias_memory(binding, problem, context, Port::PARAM_GRAD)},
                  {DNNL_ARG_DIFF_DST, memory(problem.y, context.engine, binding.data<void>(Port::DY))},
                  {DNNL_ARG_SCRATCHPAD, placed.scratchpad}}));
  }

  static Call backward_data(const Binding& binding, const Problem& problem, const CpuContext& context) {
    const BackwardData::primitive_desc desc = problem.backward_data(context.engine);
    const auto placed = weights_of(problem, desc, context.engine)
                            .place(context, binding.data<void>(Port::PARAM), binding.workspace);
    return with_reorder(
        placed, WeightUse::READ,
        DnnlCall(BackwardData(desc), context.stream,
                 {{DNNL_ARG_DIFF_DST, memory(problem.y, context.engine, binding.data<void>(Port::DY))},
                  {DNNL_ARG_WEIGHTS, placed.weights},
                  {DNNL_ARG_DIFF_SRC, memory(problem.x, context.engine, binding.data<void>(Port::DX))},
                  {DNNL_ARG_SCRATCHPAD, placed.scratchpad}}));
  }

  /// The bias or its gradient; without one a memory of no elements, which oneDNN leaves alone.
  static memory bias_memory(const Binding& binding, const Problem& problem, const CpuContext& context,
                            Port port) {
    const bool bias = ConvAttributes(binding.query.attrs).bias;
    return {problem.bias, context.engine, bias ? binding.data<float>(port, 1) : nullptr};
  }
};

}  // namespace

std::unique_ptr<OpKernels> conv_cpu_kernels();
std::unique_ptr<OpKernels> conv_cpu_kernels() { return std::make_unique<ConvCpuKernels>(); }

}  // namespace tr
