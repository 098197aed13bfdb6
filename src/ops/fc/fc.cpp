#include "ops/fc/fc.h"

namespace tr {

FcAttributes::FcAttributes(const Attributes& attrs)
    : out_features(attrs.integer("out_features")),
      bias(attrs.flag("bias")),
      relu(attrs.text("activation") == "relu") {}

namespace {

bool needs_dx(const OpQuery& query) { return !query.needs_dx.empty() && query.needs_dx[0]; }

}  // namespace

FcCudaWorkspace fc_cuda_workspace(const OpQuery& query, Pass pass, WorkspaceSlices& slices) {
  const FcAttributes fc(query.attrs);
  const Shape& x = query.x[0];
  const auto padded_channels = [&](int64_t channels, Region region) {
    return round_up(channels, channel_alignment(query.dtype, region, BackendKind::CUDA));
  };
  const Region x_region = query.reads_network_input ? Region::I_A_DATA : Region::F_FEATURE_FP16;
  const bool x_is_dense = padded_channels(x.c(), x_region) == x.c();
  const bool backward = pass == Pass::BACKWARD;
  const int64_t element = dtype_bytes(query.dtype);
  FcCudaWorkspace workspace;
  if (!x_is_dense) workspace.x = slices.take(x.numel() * element);
  if (!backward && query.dtype != DType::FP32) workspace.product = slices.take(query.y.numel() * 4);
  if (backward && fc.relu)
    workspace.masked_dy =
        slices.take(query.y.n() * padded_channels(fc.out_features, Region::F_GRAD_SLOT_FP16) * element);
  if (backward && !x_is_dense && needs_dx(query)) workspace.dx = slices.take(x.numel() * element);
  workspace.scratch = slices.take(query.target.workspace_cap_bytes);
  return workspace;
}

namespace {

class FcSpec : public OpSpec {
 public:
  std::string_view name() const override { return "fc"; }

  std::vector<AttrSpec> schema() const override {
    return {{"out_features", std::nullopt, int64_t{1}, "features of the output"},
            {"bias", true, true, "add a learned bias per output feature"},
            {"activation", std::string(), std::string(), "'' or 'relu'; set by fusion"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    TR_CHECK(attrs.integer("out_features") > 0, ValueError,
             cat(who, ": out_features is ", attrs.integer("out_features"), "; it must be at least 1"));
    const std::string& activation = attrs.text("activation");
    TR_CHECK(activation.empty() || activation == "relu", ValueError,
             cat(who, ": activation '", activation, "' is not known; use '' or 'relu'"));
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const override {
    TR_CHECK(x[0].h() == 1 && x[0].w() == 1, ShapeError,
             cat(who, ": input ", x[0], " is a feature map of ", x[0].h(), "x", x[0].w(),
                 ", expected [N,1,1,features]; put flatten() before it"));
    return {x[0].n(), 1, 1, attrs.integer("out_features")};
  }

  std::vector<ParamSpec> params(const OpQuery& query) const override {
    const FcAttributes fc(query.attrs);
    const Shape& x = query.x[0];
    const int64_t in = fc_in_features(x), out = fc.out_features;
    std::vector<ParamSpec> params{{"weight",
                                   ParamRole::FC_WEIGHT,
                                   Shape(out, 1, 1, in),
                                   InitKind::WEIGHT,
                                   in,
                                   out,
                                   {out, in},
                                   {x.h(), x.w(), x.c()}}};
    if (fc.bias)
      params.push_back({"bias", ParamRole::FC_BIAS, Shape(1, 1, 1, out), InitKind::BIAS, in, out, {out}});
    return params;
  }

  FlattenedInput flattened_input() const override { return FlattenedInput::ORDERED; }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    if (query.target.backend == BackendKind::CUDA) return {Pass::BACKWARD};
    std::vector<Pass> passes{Pass::BACKWARD_WEIGHT};
    if (needs_dx(query)) passes.push_back(Pass::BACKWARD_DATA);
    return passes;
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    const FcAttributes fc(query.attrs);
    std::vector<Use> uses;
    switch (pass) {
      case Pass::FORWARD:
      case Pass::INFERENCE:
        uses = {reads(Port::X), reads(Port::PARAM, 0)};
        if (fc.bias) uses.push_back(reads(Port::PARAM, 1));
        uses.push_back(writes(Port::Y));
        break;
      case Pass::BACKWARD_WEIGHT:
        uses = {reads(Port::X)};
        if (fc.relu) uses.push_back(reads(Port::Y));
        uses.push_back(fc.relu ? updates(Port::DY) : reads(Port::DY));
        uses.push_back(writes(Port::PARAM_GRAD, 0));
        if (fc.bias) uses.push_back(writes(Port::PARAM_GRAD, 1));
        break;
      case Pass::BACKWARD_DATA:
        uses = {reads(Port::DY), reads(Port::PARAM, 0), writes(Port::DX)};
        break;
      case Pass::BACKWARD:
        uses = {reads(Port::X), reads(Port::DY), reads(Port::PARAM, 0)};
        if (fc.relu) uses.push_back(reads(Port::Y));
        uses.push_back(writes(Port::PARAM_GRAD, 0));
        if (fc.bias) uses.push_back(writes(Port::PARAM_GRAD, 1));
        if (needs_dx(query)) uses.push_back(writes(Port::DX));
        break;
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

  Offer offer_cuda(const OpQuery& query, Pass pass) const override {
    WorkspaceSlices slices;
    fc_cuda_workspace(query, pass, slices);
    return {{}, slices.bytes()};
  }

  int64_t flops(const OpQuery& query, Pass pass) const override {
    const int64_t product = 2 * query.y.numel() * fc_in_features(query.x[0]);
    return pass == Pass::BACKWARD && needs_dx(query) ? 2 * product : product;
  }
};

}  // namespace

std::unique_ptr<OpSpec> fc_spec();
std::unique_ptr<OpSpec> fc_spec() { return std::make_unique<FcSpec>(); }

}  // namespace tr
