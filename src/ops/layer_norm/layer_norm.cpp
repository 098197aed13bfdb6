#include "ops/layer_norm/layer_norm.h"

#include "ops/support/channel_slices.h"

namespace tr {
namespace {

class LayerNormSpec : public OpSpec {
 public:
  std::string_view name() const override { return "layer_norm"; }

  std::vector<AttrSpec> schema() const override { return {{"epsilon", 1e-6, 0.0, "added to the variance"}}; }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double epsilon = attrs.number("epsilon");
    TR_CHECK(epsilon > 0.0 && epsilon < 1e30, ValueError,
             cat(who, ": epsilon is ", epsilon, "; it must be positive"));
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }

  /// In the roles of batch norm's, which weight decay leaves alone.
  std::vector<ParamSpec> params(const OpQuery& query) const override {
    const int64_t channels = query.x[0].c();
    const Shape shape(1, 1, 1, channels);
    return {{"weight", ParamRole::BN_WEIGHT, shape, InitKind::ONES, channels, channels, {channels}},
            {"bias", ParamRole::BN_BIAS, shape, InitKind::ZEROS, channels, channels, {channels}}};
  }

  std::vector<SavedSpec> saved(const OpQuery& query) const override {
    const Shape shape(1, 1, 1, layer_norm_rows(query));
    return {{"mean", Region::T_TEMP_FP32, shape}, {"inverse_std", Region::T_TEMP_FP32, shape}};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass == Pass::BACKWARD) {
      std::vector<Use> uses{reads(Port::X),
                            reads(Port::DY),
                            reads(Port::PARAM, 0),
                            reads(Port::SAVED, 0),
                            reads(Port::SAVED, 1),
                            writes(Port::PARAM_GRAD, 0),
                            writes(Port::PARAM_GRAD, 1)};
      if (query.needs_dx[0]) uses.push_back(writes(Port::DX));
      return uses;
    }
    std::vector<Use> uses{reads(Port::X), reads(Port::PARAM, 0), reads(Port::PARAM, 1), writes(Port::Y)};
    if (pass == Pass::FORWARD) uses.insert(uses.end(), {writes(Port::SAVED, 0), writes(Port::SAVED, 1)});
    if (pass == Pass::RECOMPUTE) uses.insert(uses.end(), {reads(Port::SAVED, 0), reads(Port::SAVED, 1)});
    return uses;
  }

  Pass recompute_pass() const override { return Pass::RECOMPUTE; }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }

  Offer offer_cuda(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {"", ChannelSlices(layer_norm_rows(query), query.x[0].c(), 2).workspace_bytes()};
  }
};

}  // namespace

std::unique_ptr<OpSpec> layer_norm_spec();
std::unique_ptr<OpSpec> layer_norm_spec() { return std::make_unique<LayerNormSpec>(); }

}  // namespace tr
