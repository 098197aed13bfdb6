#include "ops/conv/conv.h"

#include "ops/conv/conv_workspace.h"

namespace tr {

ConvAttributes::ConvAttributes(const Attributes& attrs)
    : out_channels(attrs.integer("out_channels")),
      kernel(attrs.integer("kernel")),
      stride(attrs.integer("stride")),
      padding(attrs.integer("padding")),
      dilation(attrs.integer("dilation")),
      groups(attrs.integer("groups")),
      bias(attrs.flag("bias")),
      relu(attrs.text("activation") == "relu") {}

namespace {

class ConvSpec : public OpSpec {
 public:
  std::string_view name() const override { return "conv"; }

  std::vector<AttrSpec> schema() const override {
    return {{"out_channels", std::nullopt, int64_t{1}, "channels of the output"},
            {"kernel", std::nullopt, int64_t{1}, "height and width of the kernel"},
            {"stride", int64_t{1}, int64_t{1}, "step between windows"},
            {"padding", int64_t{0}, int64_t{0}, "zeros on each side of the input"},
            {"dilation", int64_t{1}, int64_t{1}, "step between the kernel's elements"},
            {"groups", int64_t{1}, int64_t{1}, "independent groups of channels"},
            {"bias", true, true, "add a learned bias per output channel"},
            {"activation", std::string(), std::string(), "'' or 'relu'; set by fusion"},
            {"linear", false, false, "of a 1x1 kernel: weights are saved as [out, in], as Linear's"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    for (const char* name : {"out_channels", "kernel", "stride", "dilation", "groups"})
      TR_CHECK(attrs.integer(name) > 0, ValueError,
               cat(who, ": ", name, " is ", attrs.integer(name), "; it must be at least 1"));
    TR_CHECK(attrs.integer("padding") >= 0, ValueError,
             cat(who, ": padding is ", attrs.integer("padding"), "; it must be at least 0"));
    const std::string& activation = attrs.text("activation");
    TR_CHECK(activation.empty() || activation == "relu", ValueError,
             cat(who, ": activation '", activation, "' is not known; use '' or 'relu'"));
    const ConvAttributes conv(attrs);
    TR_CHECK(conv.out_channels % conv.groups == 0, ValueError,
             cat(who, ": out_channels is ", conv.out_channels, ", groups ", conv.groups,
                 " does not divide it; change out_channels or groups"));
    TR_CHECK(!attrs.flag("linear") || (conv.kernel == 1 && conv.groups == 1), ValueError,
             cat(who, ": linear is given with kernel ", conv.kernel, " and groups ", conv.groups,
                 "; it takes kernel 1 and groups 1"));
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const override {
    const ConvAttributes conv(attrs);
    const Shape& in = x[0];
    TR_CHECK(in.c() % conv.groups == 0, ShapeError,
             cat(who, ": input has ", in.c(), " channels, groups ", conv.groups,
                 " does not divide it; change groups or the input's channels"));
    const int64_t height = in.h() + 2 * conv.padding, width = in.w() + 2 * conv.padding;
    TR_CHECK(conv.extent() <= height && conv.extent() <= width, ShapeError,
             cat(who, ": kernel ", conv.kernel, " with dilation ", conv.dilation, " spans ", conv.extent(),
                 " but input ", in, " with padding ", conv.padding, " is ", height, "x", width,
                 "; use a smaller kernel or dilation, or more padding"));
    return {in.n(), (height - conv.extent()) / conv.stride + 1, (width - conv.extent()) / conv.stride + 1,
            conv.out_channels};
  }

  std::vector<ParamSpec> params(const OpQuery& query) const override {
    const ConvAttributes conv(query.attrs);
    const Shape weight = conv.weight_shape(query.x[0].c());
    const int64_t window = conv.kernel * conv.kernel;
    const int64_t fan_in = weight.c() * window, fan_out = conv.out_channels / conv.groups * window;
    std::vector<ParamSpec> params{{"weight",
                                   query.reads_network_input ? ParamRole::FIRST_CONV : ParamRole::DEEP_CONV,
                                   weight,
                                   InitKind::WEIGHT,
                                   fan_in,
                                   fan_out,
                                   {conv.out_channels, weight.c(), conv.kernel, conv.kernel}}};
    if (query.attrs.flag("linear")) {
      params[0].door_shape.resize(2);
      params[0].flattened_hwc = {1, 1, weight.c()};
    }
    if (conv.bias)
      params.push_back({"bias",
                        ParamRole::FC_BIAS,
                        Shape(1, 1, 1, conv.out_channels),
                        InitKind::BIAS,
                        fan_in,
                        fan_out,
                        {conv.out_channels}});
    return params;
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    std::vector<Pass> passes{Pass::BACKWARD_WEIGHT};
    if (!query.needs_dx.empty() && query.needs_dx[0]) passes.push_back(Pass::BACKWARD_DATA);
    return passes;
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    const ConvAttributes conv(query.attrs);
    std::vector<Use> uses;
    switch (pass) {
      case Pass::FORWARD:
      case Pass::INFERENCE:
        uses = {reads(Port::X), reads(Port::PARAM, 0)};
        if (conv.bias) uses.push_back(reads(Port::PARAM, 1));
        uses.push_back(writes(Port::Y));
        if (query.statistics > 0 && pass == Pass::FORWARD) uses.push_back(writes(Port::STATISTICS));
        break;
      case Pass::BACKWARD_WEIGHT:
        uses = {reads(Port::X)};
        if (conv.relu) uses.push_back(reads(Port::Y));
        uses.push_back(conv.relu ? updates(Port::DY) : reads(Port::DY));
        uses.push_back(writes(Port::PARAM_GRAD, 0));
        if (conv.bias) uses.push_back(writes(Port::PARAM_GRAD, 1));
        break;
      case Pass::BACKWARD_DATA:
        uses = {reads(Port::DY), reads(Port::PARAM, 0), writes(Port::DX)};
        break;
      case Pass::BACKWARD:
      case Pass::RECOMPUTE:
        break;
    }
    return uses;
  }

  std::optional<Attributes> absorb(const Attributes& mine, std::string_view consumer, const Attributes&,
                                   int) const override {
    if (consumer != "relu" || !mine.text("activation").empty()) return std::nullopt;
    Attributes fused = mine;
    fused.set("activation", std::string("relu"));
    return fused;
  }

  /// A bias before batch norm changes nothing but the running mean: it becomes the offset. cuDNN's sums cost
  /// less than a pass over y, but their bits vary.
  int statistics_rows(const OpQuery& query) const override {
    const ConvAttributes conv(query.attrs);
    if (query.target.backend != BackendKind::CUDA || conv.relu) return 0;
    const bool sums = !query.target.deterministic && query.dtype != DType::FP32;
    return (sums ? 2 : 0) + (conv.bias ? 1 : 0);
  }

  Offer offer_cuda(const OpQuery& query, Pass pass) const override {
    return {{}, ConvWorkspace(query, pass).bytes};
  }

  int64_t flops(const OpQuery& query, Pass pass) const override {
    if (pass == Pass::BACKWARD) return 0;
    const ConvAttributes conv(query.attrs);
    return 2 * query.y.numel() * conv.kernel * conv.kernel * (query.x[0].c() / conv.groups);
  }
};

}  // namespace

std::unique_ptr<OpSpec> conv_spec();
std::unique_ptr<OpSpec> conv_spec() { return std::make_unique<ConvSpec>(); }

}  // namespace tr
