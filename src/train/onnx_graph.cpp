// How each operator is said in ONNX: a table from its name to the nodes that it becomes.
#include "train/onnx_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "renaissance/core/error.h"
#include "renaissance/train/export.h"

namespace tr {

namespace {

/// How a value of ours, NHWC, is kept in ONNX.
enum class Form : uint8_t {
  MAP,        ///< N, C, H, W
  VECTOR,     ///< N, features
  FLATTENED,  ///< still N, C, H, W; its reader takes it as features
};

struct Value {
  std::string name;
  Form form = Form::MAP;
  Shape shape;  ///< of the map, also where it is to be flattened
};

/// Builds the nodes of one network, a layer at a time.
class GraphBuilder {
 public:
  GraphBuilder(const CompiledModel& model, const StateDict& state) : model_(model), state_(state) {
    const Shape& input = model.request.inputs[static_cast<size_t>(Variant::VAL_BASE)];
    values_.push_back({"input", Form::MAP, input});
    shapes_ = infer_shapes(model.arch, input);
    graph_.input = {input.c(), input.h(), input.w()};
    graph_.classes = model.request.classes;
  }

  OnnxGraph run(const std::string& name);

  // What a mapping asks and says of its layer.
  const Attributes& attrs() const { return layer().attrs; }
  size_t num_inputs() const { return layer().inputs.size(); }
  const Value& value(size_t index = 0) const { return values_[static_cast<size_t>(layer().inputs[index])]; }
  const Shape& out_shape() const { return shapes_[at_ + 1]; }
  const Shape& in_shape(size_t index = 0) const {
    return shapes_[static_cast<size_t>(layer().inputs[index])];
  }

  /// Input `index` as N, C, H, W.
  std::string map(size_t index = 0) {
    const Value& in = value(index);
    if (in.form == Form::MAP) return in.name;
    return node("Unsqueeze", {vector(index), integers("axes_2_3", {2, 3})});
  }
  /// Input `index` as N, features in our order, or for `door_order` in torchvision's: channels outermost.
  std::string vector(size_t index = 0, bool door_order = false) {
    const Value& in = value(index);
    if (in.form == Form::VECTOR) return in.name;
    std::string name = in.name;
    if (!door_order && in.shape.h() * in.shape.w() > 1) name = node("Transpose", {name}, {{"perm", NHWC}});
    return node("Flatten", {name}, {{"axis", int64_t{1}}});
  }
  /// Input `index` for an operator that treats elements or features alike, whatever the form.
  std::string any(size_t index = 0) {
    return value(index).form == Form::FLATTENED ? vector(index) : value(index).name;
  }
  Form form_of_any(size_t index = 0) const {
    return value(index).form == Form::MAP ? Form::MAP : Form::VECTOR;
  }

  /// Adds a node; the name of its output.
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<std::pair<std::string, OnnxAttribute>> attributes = {}) {
    const std::string name = cat(layer().name, '/', op, count_ == 0 ? "" : cat('_', count_));
    ++count_;
    graph_.nodes.push_back({op, name, std::move(inputs), name, std::move(attributes)});
    return name;
  }

  bool has_parameter(const std::string& name) const { return state_.find(parameter_name(name)) != nullptr; }
  /// The initializer of the layer's tensor `name`, in the door's order, with other dims where they are given.
  std::string parameter(const std::string& name, std::vector<int64_t> dims = {}) {
    const std::string full = parameter_name(name);
    const StateTensor* tensor = state_.find(full);
    TR_CHECK(tensor != nullptr, DataError, cat("ONNX: weights lack '", full, "'"));
    OnnxConstant constant{full, dims.empty() ? tensor->shape : std::move(dims), {}, {}};
    constant.values.resize(tensor->data.size() / sizeof(float));
    std::memcpy(constant.values.data(), tensor->data.data(), tensor->data.size());
    graph_.constants.push_back(std::move(constant));
    return full;
  }
  const ParamSpec& spec(const std::string& name) const {
    const std::string full = parameter_name(name);
    const auto found = std::find_if(model_.parameters.begin(), model_.parameters.end(),
                                    [&](const Parameter& parameter) { return parameter.name == full; });
    TR_CHECK(found != model_.parameters.end(), StateError, cat("ONNX: the network has no '", full, "'"));
    return found->spec;
  }

  std::string number(float value) { return numbers(cat("number_", value), {}, {value}); }
  /// Constants of one name are one; "/" keeps them apart from parameters.
  std::string numbers(const std::string& name, std::vector<int64_t> dims, std::vector<float> values) {
    return constant({"constant/" + name, std::move(dims), std::move(values), {}});
  }
  std::string integers(const std::string& name, std::vector<int64_t> values) {
    return constant({"constant/" + name, {std::ssize(values)}, {}, std::move(values)});
  }

  void set(std::string name, Form form) { result_ = {std::move(name), form, out_shape()}; }
  void set(Value value) { result_ = std::move(value); }
  /// The output of a node on any(), whose form it keeps.
  void set_any(std::string name) { set(std::move(name), form_of_any()); }

  std::string who() const { return cat("ONNX: ", layer().entry->spec->name(), " '", layer().name, "'"); }

  static const std::vector<int64_t> NHWC, NCHW;

 private:
  const Layer& layer() const { return model_.arch.layers[at_]; }
  std::string parameter_name(const std::string& name) const {
    return name.empty() ? layer().name : cat(layer().name, '.', name);
  }
  std::string constant(OnnxConstant constant) {
    const bool is_known = std::any_of(graph_.constants.begin(), graph_.constants.end(),
                                      [&](const OnnxConstant& known) { return known.name == constant.name; });
    std::string name = constant.name;
    if (!is_known) graph_.constants.push_back(std::move(constant));
    return name;
  }

  const CompiledModel& model_;
  const StateDict& state_;
  OnnxGraph graph_;
  std::vector<Shape> shapes_;  ///< logical
  std::vector<Value> values_;
  size_t at_ = 0;  ///< the layer
  int count_ = 0;  ///< of its nodes
  Value result_;
};

const std::vector<int64_t> GraphBuilder::NHWC{0, 2, 3, 1}, GraphBuilder::NCHW{0, 3, 1, 2};

void pass_on(GraphBuilder& to) { to.set(to.value()); }

void flatten(GraphBuilder& to) {
  Value value = to.value();
  if (value.form == Form::MAP) value.form = Form::FLATTENED;
  to.set(std::move(value));
}

std::vector<int64_t> four(int64_t begin, int64_t end_h, int64_t end_w) {
  return {begin, begin, end_h, end_w};
}

void conv(GraphBuilder& to) {
  const Attributes& attrs = to.attrs();
  const Shape& weight = to.spec("weight").shape;
  const int64_t kernel = weight.h(), stride = attrs.integer("stride"), padding = attrs.integer("padding"),
                dilation = attrs.integer("dilation");
  std::vector<std::string> inputs{to.map(),
                                  to.parameter("weight", {weight.n(), weight.c(), weight.h(), weight.w()})};
  if (to.has_parameter("bias")) inputs.push_back(to.parameter("bias"));
  to.set(to.node("Conv", std::move(inputs),
                 {{"kernel_shape", std::vector{kernel, kernel}},
                  {"strides", std::vector{stride, stride}},
                  {"pads", four(padding, padding, padding)},
                  {"dilations", std::vector{dilation, dilation}},
                  {"group", attrs.integer("groups")}}),
         Form::MAP);
}

void fc(GraphBuilder& to) {
  const auto [h, w, c] = to.spec("weight").flattened_hwc;
  std::vector<std::string> inputs{to.vector(0, h * w > 1), to.parameter("weight")};
  if (to.has_parameter("bias")) inputs.push_back(to.parameter("bias"));
  to.set(to.node("Gemm", std::move(inputs), {{"transB", int64_t{1}}}), Form::VECTOR);
}

void bn(GraphBuilder& to) {
  if (!to.has_parameter("weight")) return pass_on(to);  // folded into the layer before it
  const int64_t channels = to.spec("weight").shape.c();
  TR_CHECK(to.in_shape().c() == channels, NotSupportedError,
           cat(to.who(), " has ", channels, " channels on a flattened map; put flatten behind it"));
  to.set_any(to.node("BatchNormalization",
                     {to.any(), to.parameter("weight"), to.parameter("bias"), to.parameter("running_mean"),
                      to.parameter("running_var")},
                     {{"epsilon", static_cast<float>(to.attrs().number("epsilon"))}}));
}

void layer_norm(GraphBuilder& to) {
  const bool is_map = to.form_of_any() == Form::MAP;
  std::string x = to.any();
  TR_CHECK(to.in_shape().c() == to.spec("weight").shape.c(), NotSupportedError,
           cat(to.who(), " is on a flattened map; put flatten behind it"));
  if (is_map) x = to.node("Transpose", {x}, {{"perm", GraphBuilder::NHWC}});
  x = to.node("LayerNormalization", {x, to.parameter("weight"), to.parameter("bias")},
              {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(to.attrs().number("epsilon"))}});
  if (is_map) x = to.node("Transpose", {x}, {{"perm", GraphBuilder::NCHW}});
  to.set_any(x);
}

void layer_scale(GraphBuilder& to) { to.set(to.node("Mul", {to.map(), to.parameter("")}), Form::MAP); }

void pool(GraphBuilder& to, const std::string& op) {
  const Attributes& attrs = to.attrs();
  const int64_t kernel = attrs.integer("kernel"), padding = attrs.integer("padding");
  const int64_t stride = attrs.integer("stride") == 0 ? kernel : attrs.integer("stride");
  // A last window that reaches over the end is said by padding there.
  const auto end = [&](int64_t in, int64_t out) {
    return std::max(padding, (out - 1) * stride + kernel - in - padding);
  };
  std::vector<std::pair<std::string, OnnxAttribute>> attributes{
      {"kernel_shape", std::vector{kernel, kernel}},
      {"strides", std::vector{stride, stride}},
      {"pads", four(padding, end(to.in_shape().h(), to.out_shape().h()),
                    end(to.in_shape().w(), to.out_shape().w()))}};
  if (op == "AveragePool") attributes.push_back({"count_include_pad", int64_t{1}});
  to.set(to.node(op, {to.map()}, std::move(attributes)), Form::MAP);
}

void maxpool(GraphBuilder& to) { pool(to, "MaxPool"); }
void avgpool(GraphBuilder& to) { pool(to, "AveragePool"); }
void gap(GraphBuilder& to) { to.set(to.node("GlobalAveragePool", {to.map()}), Form::MAP); }

/// [size, in]: row i is the mean of inputs floor(i in / size) to ceil((i + 1) in / size), as PyTorch's
/// windows.
std::vector<float> window_means(int64_t in, int64_t size) {
  std::vector<float> matrix(static_cast<size_t>(size * in), 0.0f);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t begin = i * in / size, end = ((i + 1) * in + size - 1) / size;
    for (int64_t x = begin; x < end; ++x)
      matrix[static_cast<size_t>(i * in + x)] = 1.0f / static_cast<float>(end - begin);
  }
  return matrix;
}

/// Windows of several sizes have no operator: means over rows, then over columns, are matrix products.
void adaptive_avgpool(GraphBuilder& to) {
  const int64_t size = to.attrs().integer("size"), h = to.in_shape().h(), w = to.in_shape().w();
  const std::vector<float> columns = window_means(w, size);
  std::vector<float> transposed(columns.size());
  for (int64_t i = 0; i < size; ++i)
    for (int64_t x = 0; x < w; ++x)
      transposed[static_cast<size_t>(x * size + i)] = columns[static_cast<size_t>(i * w + x)];
  const std::string rows = to.node(
      "MatMul", {to.numbers(cat("mean_rows_", h, "_", size), {size, h}, window_means(h, size)), to.map()});
  to.set(to.node("MatMul", {rows, to.numbers(cat("mean_columns_", w, "_", size), {w, size}, transposed)}),
         Form::MAP);
}

void add(GraphBuilder& to) {
  if (to.form_of_any(0) == Form::VECTOR && to.form_of_any(1) == Form::VECTOR)
    return to.set(to.node("Add", {to.any(0), to.any(1)}), Form::VECTOR);
  const std::string a = to.map(0), b = to.map(1);
  to.set(to.node("Add", {a, b}), Form::MAP);
}

void channel_scale(GraphBuilder& to) {
  const std::string x = to.map(0), s = to.map(1);
  to.set(to.node("Mul", {x, s}), Form::MAP);
}

void concat(GraphBuilder& to) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < to.num_inputs(); ++i) inputs.push_back(to.map(i));
  to.set(to.node("Concat", std::move(inputs), {{"axis", int64_t{1}}}), Form::MAP);
}

template <typename... Attribute>
void elementwise(GraphBuilder& to, const std::string& op, Attribute... attributes) {
  to.set_any(to.node(op, {to.any()}, {attributes...}));
}
using Named = std::pair<std::string, OnnxAttribute>;

void relu(GraphBuilder& to) { elementwise(to, "Relu"); }
void sigmoid(GraphBuilder& to) { elementwise(to, "Sigmoid"); }
void tanh_of(GraphBuilder& to) { elementwise(to, "Tanh"); }
void hardswish(GraphBuilder& to) { elementwise(to, "HardSwish"); }
void hardsigmoid(GraphBuilder& to) {
  elementwise(to, "HardSigmoid", Named{"alpha", 1.0f / 6.0f}, Named{"beta", 0.5f});
}
void leaky_relu(GraphBuilder& to) {
  elementwise(to, "LeakyRelu", Named{"alpha", static_cast<float>(to.attrs().number("negative_slope"))});
}
void elu(GraphBuilder& to) {
  elementwise(to, "Elu", Named{"alpha", static_cast<float>(to.attrs().number("alpha"))});
}
void relu6(GraphBuilder& to) {
  const std::string x = to.any();
  to.set_any(to.node("Clip", {x, to.number(0.0f), to.number(6.0f)}));
}
void silu(GraphBuilder& to) {
  const std::string x = to.any();
  to.set_any(to.node("Mul", {x, to.node("Sigmoid", {x})}));
}

/// x/2 (1 + erf(x / √2)), or x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))); ONNX has Gelu only since opset 20.
void gelu(GraphBuilder& to) {
  using std::numbers::inv_sqrtpi, std::numbers::sqrt2;
  const std::string x = to.any();
  std::string curve;
  if (to.attrs().text("approximate") == "tanh") {
    const std::string square = to.node("Mul", {x, x});
    const std::string cube = to.node("Mul", {to.node("Mul", {square, x}), to.number(0.044715f)});
    const std::string sum = to.node("Add", {x, cube});
    curve = to.node("Tanh", {to.node("Mul", {sum, to.number(static_cast<float>(sqrt2 * inv_sqrtpi))})});
  } else {
    curve = to.node("Erf", {to.node("Mul", {x, to.number(static_cast<float>(1.0 / sqrt2))})});
  }
  const std::string half = to.node("Mul", {x, to.number(0.5f)});
  to.set_any(to.node("Mul", {half, to.node("Add", {curve, to.number(1.0f)})}));
}

struct Mapping {
  std::string_view op;
  void (*write)(GraphBuilder&);
};
constexpr std::array MAPPINGS{
    Mapping{"conv", conv},
    Mapping{"fc", fc},
    Mapping{"bn", bn},
    Mapping{"layer_norm", layer_norm},
    Mapping{"layer_scale", layer_scale},
    Mapping{"maxpool", maxpool},
    Mapping{"avgpool", avgpool},
    Mapping{"adaptive_avgpool", adaptive_avgpool},
    Mapping{"gap", gap},
    Mapping{"flatten", flatten},
    Mapping{"add", add},
    Mapping{"concat", concat},
    Mapping{"channel_scale", channel_scale},
    Mapping{"relu", relu},
    Mapping{"leaky_relu", leaky_relu},
    Mapping{"relu6", relu6},
    Mapping{"elu", elu},
    Mapping{"sigmoid", sigmoid},
    Mapping{"tanh", tanh_of},
    Mapping{"silu", silu},
    Mapping{"hardswish", hardswish},
    Mapping{"hardsigmoid", hardsigmoid},
    Mapping{"gelu", gelu},
    Mapping{"identity", pass_on},
    Mapping{"dropout", pass_on},
    Mapping{"stochastic_depth", pass_on},
};

OnnxGraph GraphBuilder::run(const std::string& name) {
  graph_.name = name;
  for (at_ = 0; at_ < model_.arch.layers.size(); ++at_) {
    count_ = 0;
    const std::string_view op = layer().entry->spec->name();
    const auto* found = std::find_if(MAPPINGS.begin(), MAPPINGS.end(),
                                     [&](const Mapping& mapping) { return mapping.op == op; });
    TR_CHECK(found != MAPPINGS.end(), NotSupportedError,
             cat(who(), ": this operator cannot be exported; use another, or export weights only"));
    found->write(*this);
    values_.push_back(result_);
  }
  // The network's output under its own name.
  at_ = static_cast<size_t>(model_.arch.output) - 1;
  const Value& output = values_[at_ + 1];
  OnnxNode last{"Identity", "logits", {output.name}, "logits", {}};
  if (output.form != Form::VECTOR)
    last = {"Flatten", "logits", {output.name}, "logits", {{"axis", int64_t{1}}}};
  graph_.nodes.push_back(std::move(last));
  return std::move(graph_);
}

}  // namespace

std::vector<std::string> onnx_operators() {
  std::vector<std::string> names;
  for (const Mapping& mapping : MAPPINGS) names.emplace_back(mapping.op);
  return names;
}

OnnxGraph onnx_graph(const CompiledModel& model, const StateDict& state, const std::string& name) {
  return GraphBuilder(model, state).run(name);
}

}  // namespace tr
