/// y = max(x, 0); NaN stays NaN. Backward keeps y, not x: dx = dy where y > 0 (or NaN), else 0.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class ReluSpec : public OpSpec {
 public:
  std::string_view name() const override { return "relu"; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }

  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::Y), reads(Port::DY), writes(Port::DX)};
    if (pass == Pass::FORWARD || pass == Pass::INFERENCE) return {reads(Port::X), writes(Port::Y)};
    return {};
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    if (query.needs_dx.empty() || !query.needs_dx[0]) return {};
    return {Pass::BACKWARD};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> relu_spec();
std::unique_ptr<OpSpec> relu_spec() { return std::make_unique<ReluSpec>(); }

}  // namespace tr
