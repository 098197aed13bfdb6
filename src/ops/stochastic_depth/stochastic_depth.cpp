#include "ops/stochastic_depth/stochastic_depth.h"

namespace tr {
namespace {

class StochasticDepthSpec : public OpSpec {
 public:
  std::string_view name() const override { return "stochastic_depth"; }

  std::vector<AttrSpec> schema() const override {
    return {
        {"probability", std::nullopt, 0.0, "chance of a sample to be dropped"},
        {"mode", std::string("row"), std::string(), "'row': each sample by itself; 'batch': all or none"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double probability = attrs.number("probability");
    TR_CHECK(probability >= 0.0 && probability <= 1.0, ValueError,
             cat(who, ": probability is ", probability, "; it must be from 0 to 1"));
    const std::string& mode = attrs.text("mode");
    TR_CHECK(mode == "row" || mode == "batch", ValueError,
             cat(who, ": mode is '", mode, "'; use 'row' or 'batch'"));
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }
  bool is_view(const Attributes& attrs) const override { return attrs.number("probability") == 0.0; }

  std::vector<SavedSpec> saved(const OpQuery& query) const override {
    return {{"kept", Region::S_MASK, Shape(1, 1, 1, query.y.n())}};
  }

  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::DY), reads(Port::SAVED), writes(Port::DX)};
    if (pass == Pass::INFERENCE) return {reads(Port::X), writes(Port::Y)};
    if (pass == Pass::RECOMPUTE) return {reads(Port::X), reads(Port::SAVED), writes(Port::Y)};
    return {reads(Port::X), reads(Port::BASELINE, DROPOUT_SEED), reads(Port::BASELINE, DROPOUT_COUNTER),
            writes(Port::Y), writes(Port::SAVED)};
  }

  Pass recompute_pass() const override { return Pass::RECOMPUTE; }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> stochastic_depth_spec();
std::unique_ptr<OpSpec> stochastic_depth_spec() { return std::make_unique<StochasticDepthSpec>(); }

}  // namespace tr
