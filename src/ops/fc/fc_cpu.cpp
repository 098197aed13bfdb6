// Fully connected layers through oneDNN. Where its inner product is a plain GEMM, the same product as a
// 1x1 convolution over a column of N pixels is faster forward and for the data (AVX2: 165 against
// 130 GFLOP/s), slower for the weights.
// https://oneapi-src.github.io/oneDNN/v2.6/dev_guide_inner_product.html
#include "ops/fc/fc.h"
#include "ops/support/dnnl_weights.h"
#include "ops/support/fused_relu.h"

namespace tr {
namespace {

using dnnl::memory;

constexpr auto ANY = memory::format_tag::any;
constexpr auto DIRECT = dnnl::algorithm::convolution_direct;

/// A primitive and how it sees the operands; the bytes are the same either way.
struct Product {
  dnnl::primitive_desc desc;
  memory::desc x, y, arena_weights, bias;
};

bool runs(const dnnl::primitive_desc& desc, std::string_view implementation) {
  return std::string_view(desc.impl_info_str()).find(implementation) != std::string_view::npos;
}

/// The layer in oneDNN's terms.
class Problem {
 public:
  Problem(const OpQuery& query, const dnnl::engine& engine)
      : n_(query.x[0].n()), in_(fc_in_features(query.x[0])), dtype_(query.dtype), engine_(engine) {
    const FcAttributes fc(query.attrs);
    out_ = fc.out_features;
    if (fc.bias) bias_ = {{out_}, memory::data_type::f32, memory::format_tag::x};
  }

  const dnnl::engine& engine() const { return engine_; }

  Product product(Pass pass) const {
    const Product inner = inner_product(pass);
    if (pass == Pass::BACKWARD_WEIGHT || runs(inner.desc, "brgemm")) return inner;
    const Product column = column_convolution(pass);
    return runs(column.desc, "jit_1x1") ? column : inner;
  }

  DnnlWeights weights(const Product& product, Pass pass) const {
    const bool read = pass != Pass::BACKWARD_WEIGHT;
    return {engine_, product.arena_weights,
            read ? product.desc.query_md(dnnl::query::weights_md)
                 : product.desc.query_md(dnnl::query::diff_weights_md),
            product.desc.query_md(dnnl::query::scratchpad_md), read ? WeightUse::READ : WeightUse::WRITE};
  }

 private:
  Product inner_product(Pass pass) const {
    const memory::dims dims{out_, in_};
    const memory::data_type type = dnnl_type(dtype_);
    const memory::desc weights(dims, type, ANY);
    Product product{{},
                    {{n_, in_}, type, memory::format_tag::nc},
                    {{n_, out_}, type, memory::format_tag::nc},
                    {dims, type, memory::format_tag::oi},
                    bias_};
    using Forward = dnnl::inner_product_forward;
    using Data = dnnl::inner_product_backward_data;
    using Weights = dnnl::inner_product_backward_weights;
    const Forward::primitive_desc forward(
        Forward::desc(forward_kind(pass), product.x, weights, bias_, product.y), user_scratchpad(), engine_);
    if (pass == Pass::BACKWARD_DATA)
      product.desc = Data::primitive_desc(Data::desc(product.x, weights, product.y), user_scratchpad(),
                                          engine_, forward);
    else if (pass == Pass::BACKWARD_WEIGHT)
      product.desc = Weights::primitive_desc(Weights::desc(product.x, weights, bias_, product.y),
                                             user_scratchpad(), engine_, forward);
    else
      product.desc = forward;
    return product;
  }

  Product column_convolution(Pass pass) const {
    const memory::dims dims{out_, in_, 1, 1}, stride{1, 1}, padding{0, 0};
    const memory::desc weights(dims, dnnl_type(dtype_), ANY);
    Product product{{},
                    nhwc_desc({1, n_, 1, in_}, dtype_),
                    nhwc_desc({1, n_, 1, out_}, dtype_),
                    {dims, dnnl_type(dtype_), memory::format_tag::ohwi},
                    bias_};
    using Forward = dnnl::convolution_forward;
    using Data = dnnl::convolution_backward_data;
    const Forward::primitive_desc forward(Forward::desc(forward_kind(pass), DIRECT, product.x, weights, bias_,
                                                        product.y, stride, padding, padding),
                                          user_scratchpad(), engine_);
    if (pass == Pass::BACKWARD_DATA)
      product.desc =
          Data::primitive_desc(Data::desc(DIRECT, product.x, weights, product.y, stride, padding, padding),
                               user_scratchpad(), engine_, forward);
    else
      product.desc = forward;
    return product;
  }

  static dnnl::prop_kind forward_kind(Pass pass) {
    return pass == Pass::INFERENCE ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  }

  int64_t n_, in_, out_ = 0;
  DType dtype_;
  memory::desc bias_;  ///< a zero descriptor where there is none
  dnnl::engine engine_;
};

class FcCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    if (std::string declined = dnnl_declines(query); !declined.empty()) return {std::move(declined), 0};
    const ThreadsOf threads(query.target);
    try {
      const Problem problem(query, offer_engine());
      const Product product = problem.product(pass);
      return {dnnl_declines(query, product.desc), problem.weights(product, pass).workspace_bytes()};
    } catch (const dnnl::error& error) {
      return {cat("oneDNN has no such inner product: ", error.message), 0};
    }
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const ThreadsOf threads(binding.query.target);
    try {
      return prepare_call(binding, cpu(context));
    } catch (const dnnl::error& error) {
      throw Error(ErrorKind::DeviceError, cat("fc '", binding.query.layer, "': ", pass_name(binding.pass),
                                              " could not be prepared by oneDNN: ", error.message));
    }
  }

 private:
  static Call prepare_call(const Binding& binding, const CpuContext& context) {
    const Problem problem(binding.query, context.engine);
    const Pass pass = binding.pass;
    const Product product = problem.product(pass);
    const FcAttributes fc(binding.query.attrs);
    const bool weight_pass = pass == Pass::BACKWARD_WEIGHT;
    const Port weight_port = weight_pass ? Port::PARAM_GRAD : Port::PARAM;
    const auto placed =
        problem.weights(product, pass).place(context, binding.data<void>(weight_port), binding.workspace);
    const WeightUse use = weight_pass ? WeightUse::WRITE : WeightUse::READ;
    const auto at = [&](const memory::desc& desc, Port port, int index = 0) {
      return memory(desc, context.engine, binding.data<void>(port, index));
    };
    // Without a bias a memory of no elements, which oneDNN leaves alone.
    const auto bias = [&](Port port) {
      return fc.bias ? at(product.bias, port, 1) : memory(product.bias, context.engine, nullptr);
    };
    const auto call = [&](std::initializer_list<std::pair<int, memory>> arguments) {
      return with_reorder(placed, use, DnnlCall(dnnl::primitive(product.desc), context.stream, arguments));
    };
    if (pass == Pass::BACKWARD_DATA)
      return call({{DNNL_ARG_DIFF_DST, at(product.y, Port::DY)},
                   {DNNL_ARG_WEIGHTS, placed.weights},
                   {DNNL_ARG_DIFF_SRC, at(product.x, Port::DX)},
                   {DNNL_ARG_SCRATCHPAD, placed.scratchpad}});
    if (weight_pass) {
      const Call multiply = call({{DNNL_ARG_SRC, at(product.x, Port::X)},
                                  {DNNL_ARG_DIFF_WEIGHTS, placed.weights},
                                  {DNNL_ARG_DIFF_BIAS, bias(Port::PARAM_GRAD)},
                                  {DNNL_ARG_DIFF_DST, at(product.y, Port::DY)},
                                  {DNNL_ARG_SCRATCHPAD, placed.scratchpad}});
      return fc.relu ? relu_before(binding, multiply) : multiply;
    }
    const Call multiply = call({{DNNL_ARG_SRC, at(product.x, Port::X)},
                                {DNNL_ARG_WEIGHTS, placed.weights},
                                {DNNL_ARG_BIAS, bias(Port::PARAM)},
                                {DNNL_ARG_DST, at(product.y, Port::Y)},
                                {DNNL_ARG_SCRATCHPAD, placed.scratchpad}});
    return fc.relu ? relu_after(binding, multiply) : multiply;
  }
};

}  // namespace

std::unique_ptr<OpKernels> fc_cpu_kernels();
std::unique_ptr<OpKernels> fc_cpu_kernels() { return std::make_unique<FcCpuKernels>(); }

}  // namespace tr
