#include "ops/channel_scale/channel_scale.h"

namespace tr {

std::string channel_scale_declines(const OpQuery& query) {
  if (query.x[0] == query.y && query.x[1] == Shape(query.y.n(), 1, 1, query.y.c())) return {};
  return cat("inputs ", query.x[0], " and ", query.x[1],
             " were flattened before it; put flatten behind channel_scale");
}

namespace {

class ChannelScaleSpec : public OpSpec {
 public:
  std::string_view name() const override { return "channel_scale"; }
  int num_inputs(const Attributes&) const override { return 2; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string& who) const override {
    const Shape factors(x[0].n(), 1, 1, x[0].c());
    TR_CHECK(x[1] == factors, ShapeError,
             cat(who, ": factors are ", x[1], ", input ", x[0], " needs ", factors,
                 "; let their branch begin with gap and end with the input's channels"));
    return x[0];
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] || query.needs_dx[1] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {reads(Port::X, 0), reads(Port::X, 1), writes(Port::Y)};
    std::vector<Use> uses{reads(Port::DY)};
    if (query.needs_dx[1]) uses.push_back(reads(Port::X, 0));
    if (query.needs_dx[0]) uses.push_back(reads(Port::X, 1));
    for (const int i : {0, 1})
      if (query.needs_dx[static_cast<size_t>(i)]) uses.push_back(writes(Port::DX, i));
    return uses;
  }

  std::vector<InPlace> in_place(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {{writes(Port::Y), reads(Port::X, 0)}};
    if (!query.needs_dx[0]) return {};
    return {{writes(Port::DX, 0), reads(Port::DY)}};
  }

  Offer offer_cuda(const OpQuery& query, Pass) const override { return {channel_scale_declines(query), 0}; }
};

}  // namespace

std::unique_ptr<OpSpec> channel_scale_spec();
std::unique_ptr<OpSpec> channel_scale_spec() { return std::make_unique<ChannelScaleSpec>(); }

}  // namespace tr
