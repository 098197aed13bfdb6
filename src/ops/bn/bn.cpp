#include "ops/bn/bn.h"

namespace tr {

BnAttributes::BnAttributes(const Attributes& attrs)
    : momentum(attrs.number("momentum")),
      epsilon(attrs.number("epsilon")),
      relu(attrs.text("activation") == "relu"),
      residual(attrs.flag("residual")),
      frozen(attrs.flag("frozen")) {}

std::string bn_declines(const OpQuery& query, Pass pass) {
  const Shape& x = query.x[0];
  if (pass != Pass::FORWARD || x.n() * x.h() * x.w() > 1 || query.attrs.flag("frozen")) return {};
  return cat("batch norm over 1 value per channel has no variance; input is ", x,
             ": use more samples in this batch (or drop the last one) or a larger map");
}

Offer bn_cuda_offer(const OpQuery& query, Pass pass) {
  Offer offer{bn_declines(query, pass)};
  const Shape& x = query.x[0];
  const int64_t pixels = x.n() * x.h() * x.w();
  constexpr int64_t MOST_PIXELS = int64_t{1} << 30;
  if (pixels > MOST_PIXELS)
    offer.declined = cat("batch norm on cuda takes at most ", MOST_PIXELS, " values per channel; input is ",
                         x, ": use fewer samples in a batch");
  // Two FP32 sums per channel, 8 channels at a time, of each of at most 256 slices of the pixels.
  const bool sums = pass == Pass::BACKWARD ||
                    (pass == Pass::FORWARD && query.statistics < 2 && !query.attrs.flag("frozen"));
  if (sums) offer.workspace_bytes = 256 * 2 * 4 * round_up(x.c(), 8);
  return offer;
}

namespace {

bool on_cuda(const OpQuery& query) { return query.target.backend == BackendKind::CUDA; }

/// With a residual the sign is that of a sum: CUDA keeps it as bits, the CPU reads y again. Without one it is
/// computed again from x0.
bool saves_mask(const OpQuery& query) {
  const BnAttributes bn(query.attrs);
  return on_cuda(query) && bn.relu && bn.residual;
}

class BnSpec : public OpSpec {
 public:
  std::string_view name() const override { return "bn"; }

  std::vector<AttrSpec> schema() const override {
    return {{"momentum", 0.1, 0.0, "weight of the batch in the running statistics"},
            {"epsilon", 1e-5, 0.0, "added to the variance"},
            {"activation", std::string(), std::string(), "'' or 'relu'; set by fusion"},
            {"residual", false, false, "add a second input before the activation; set by fusion"},
            {"frozen", false, false, "train with the running statistics as they are"}};
  }

  int num_inputs(const Attributes& attrs) const override { return attrs.flag("residual") ? 2 : 1; }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double momentum = attrs.number("momentum"), epsilon = attrs.number("epsilon");
    TR_CHECK(momentum >= 0.0 && momentum <= 1.0, ValueError,
             cat(who, ": momentum is ", momentum, "; it must be from 0 to 1"));
    TR_CHECK(epsilon > 0.0 && epsilon < 1e30, ValueError,
             cat(who, ": epsilon is ", epsilon, "; it must be positive"));
    const std::string& activation = attrs.text("activation");
    TR_CHECK(activation.empty() || activation == "relu", ValueError,
             cat(who, ": activation '", activation, "' is not known; use '' or 'relu'"));
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const override {
    if (attrs.flag("residual"))
      TR_CHECK(x[0] == x[1], ShapeError,
               cat(who, ": inputs are ", x[0], " and ", x[1], "; a fused sum needs equal shapes"));
    return x[0];
  }

  std::vector<ParamSpec> params(const OpQuery& query) const override {
    const int64_t channels = query.x[0].c();
    const Shape shape(1, 1, 1, channels);
    return {{"weight", ParamRole::BN_WEIGHT, shape, InitKind::ONES, channels, channels, {channels}},
            {"bias", ParamRole::BN_BIAS, shape, InitKind::ZEROS, channels, channels, {channels}}};
  }

  int64_t state_channels(const OpQuery& query) const override { return query.x[0].c(); }

  std::vector<SavedSpec> saved(const OpQuery& query) const override {
    const Shape shape(1, 1, 1, query.x[0].c());
    std::vector<SavedSpec> saved{{"mean", Region::T_TEMP_FP32, shape},
                                 {"inverse_std", Region::T_TEMP_FP32, shape}};
    if (saves_mask(query))
      saved.push_back({"relu_mask", Region::S_MASK,
                       Shape(1, 1, 1, query.y.numel() / query.y.c() * ((query.y.c() + 7) / 8))});
    return saved;
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    const BnAttributes bn(query.attrs);
    std::vector<Use> uses{reads(Port::X, 0)};
    if (pass == Pass::RECOMPUTE) {
      if (bn.residual) uses.push_back(reads(Port::X, 1));
      uses.insert(uses.end(), {reads(Port::PARAM, 0), reads(Port::PARAM, 1), reads(Port::SAVED, 0),
                               reads(Port::SAVED, 1), writes(Port::Y)});
      return uses;
    }
    if (pass == Pass::FORWARD || pass == Pass::INFERENCE) {
      if (bn.residual) uses.push_back(reads(Port::X, 1));
      if (query.bn_folded && pass == Pass::INFERENCE) {
        uses.insert(uses.end(), {reads(Port::EQUIVALENT, 0), reads(Port::EQUIVALENT, 1), writes(Port::Y)});
        return uses;
      }
      uses.insert(uses.end(), {reads(Port::PARAM, 0), reads(Port::PARAM, 1), reads(Port::STATE_PREV, 0),
                               reads(Port::STATE_PREV, 1), writes(Port::Y)});
      if (pass == Pass::FORWARD) {
        uses.insert(uses.end(), {writes(Port::STATE_NEXT, 0), writes(Port::STATE_NEXT, 1),
                                 writes(Port::SAVED, 0), writes(Port::SAVED, 1)});
        if (saves_mask(query)) uses.push_back(writes(Port::SAVED, 2));
        if (query.statistics > 0) uses.push_back(reads(Port::STATISTICS));
        if (on_cuda(query) && query.statistics < 2 && !bn.frozen)
          uses.push_back(updates(Port::BASELINE, SYNC_COUNTERS));
      }
      return uses;
    }
    for (int i = 0; i < query.gradients; ++i) uses.push_back(reads(Port::DY, i));
    uses.insert(uses.end(), {reads(Port::PARAM, 0), reads(Port::SAVED, 0), reads(Port::SAVED, 1)});
    if (on_cuda(query)) uses.push_back(updates(Port::BASELINE, SYNC_COUNTERS));
    if (saves_mask(query)) {
      uses.push_back(reads(Port::SAVED, 2));
    } else if (bn.relu) {
      uses.push_back(bn.residual ? reads(Port::Y) : reads(Port::PARAM, 1));
    }
    for (int i = 0; i < (bn.residual ? 2 : 1); ++i)
      if (query.needs_dx[static_cast<size_t>(i)]) uses.push_back(writes(Port::DX, i));
    uses.insert(uses.end(), {writes(Port::PARAM_GRAD, 0), writes(Port::PARAM_GRAD, 1)});
    return uses;
  }

  /// The batch's statistics are known.
  Pass recompute_pass() const override { return Pass::RECOMPUTE; }

  std::vector<InPlace> in_place(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    std::vector<InPlace> pairs;
    for (const int output : {1, 0})  // dx1 is dy under the mask, and dx0 is computed from it
      for (int input = 0; input < query.gradients; ++input)
        pairs.push_back({writes(Port::DX, output), reads(Port::DY, input)});
    return pairs;
  }

  /// Where the gradient of the sum is written anyway, for x1, adding up two is free.
  int most_gradients(const OpQuery& query) const override {
    return on_cuda(query) && BnAttributes(query.attrs).residual && query.needs_dx[1] ? 2 : 1;
  }
  bool takes_statistics(const OpQuery& query) const override {
    return on_cuda(query) && !BnAttributes(query.attrs).frozen;
  }

  std::optional<Attributes> absorb(const Attributes& mine, std::string_view consumer, const Attributes&,
                                   int) const override {
    const BnAttributes bn(mine);
    if (bn.relu) return std::nullopt;
    Attributes fused = mine;
    if (consumer == "relu") {
      fused.set("activation", std::string("relu"));
    } else if (consumer == "add" && !bn.residual) {
      fused.set("residual", true);
    } else {
      return std::nullopt;
    }
    return fused;
  }

  Offer offer_cuda(const OpQuery& query, Pass pass) const override { return bn_cuda_offer(query, pass); }
};

}  // namespace

std::unique_ptr<OpSpec> bn_spec();
std::unique_ptr<OpSpec> bn_spec() { return std::make_unique<BnSpec>(); }

}  // namespace tr
