/// y = x * scale, one factor for each channel that is learned and starts at `init`, near zero: a residual
/// branch begins as the identity.
///   x, y: [N, H, W, C]   scale: [C], [C, 1, 1] in a state_dict
/// The parameter has the layer's own name, as torchvision's `layer_scale` of a ConvNeXt block; its role is
/// that of batch norm's weight, which weight decay leaves alone. Backward keeps x.
/// Source: H. Touvron et al., "Going deeper with image transformers", ICCV 2021.
#include <cmath>
#include <limits>

#include "ops/support/channel_slices.h"
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class LayerScaleSpec : public OpSpec {
 public:
  std::string_view name() const override { return "layer_scale"; }

  std::vector<AttrSpec> schema() const override {
    return {{"init", 1e-6, 0.0, "first value of each factor"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double init = attrs.number("init");
    TR_CHECK(std::abs(init) <= double{std::numeric_limits<float>::max()}, ValueError,
             cat(who, ": init is ", init, "; it must be finite in fp32, usually 1e-6"));
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }

  std::vector<ParamSpec> params(const OpQuery& query) const override {
    const int64_t channels = query.x[0].c();
    ParamSpec scale{"",       ParamRole::BN_WEIGHT, Shape(1, 1, 1, channels), InitKind::CONSTANT, channels,
                    channels, {channels, 1, 1}};
    scale.init_value = query.attrs.number("init");
    return {scale};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {reads(Port::X), reads(Port::PARAM), writes(Port::Y)};
    if (!query.needs_dx[0]) return {reads(Port::X), reads(Port::DY), writes(Port::PARAM_GRAD)};
    return {reads(Port::X), reads(Port::DY), reads(Port::PARAM), writes(Port::PARAM_GRAD), writes(Port::DX)};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }

  Offer offer_cuda(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    const Shape& x = query.x[0];
    return {"", ChannelSlices(x.numel() / x.c(), x.c(), 1).workspace_bytes()};
  }
};

}  // namespace

std::unique_ptr<OpSpec> layer_scale_spec();
std::unique_ptr<OpSpec> layer_scale_spec() { return std::make_unique<LayerScaleSpec>(); }

}  // namespace tr
