/// y = x where x > 0, else negative_slope * x; NaN stays NaN.
/// Backward: dx = dy where x > 0, else (NaN too) negative_slope * dy. It keeps y, which is positive exactly
/// where x is, so that x can go; only where negative_slope < 0 it has to keep x.
/// Source: A. Maas et al., "Rectifier nonlinearities improve neural network acoustic models", ICML 2013.
#include <cmath>
#include <limits>

#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class LeakyReluSpec : public OpSpec {
 public:
  std::string_view name() const override { return "leaky_relu"; }

  std::vector<AttrSpec> schema() const override {
    return {{"negative_slope", 0.01, 0.0, "factor of inputs that are not positive"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double slope = attrs.number("negative_slope");
    TR_CHECK(std::abs(slope) <= double{std::numeric_limits<float>::max()}, ValueError,
             cat(who, ": negative_slope is ", slope, "; it must be finite in fp32, usually from 0 to 1"));
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }

  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {reads(Port::X), writes(Port::Y)};
    const Port kept = query.attrs.number("negative_slope") < 0.0 ? Port::X : Port::Y;
    return {reads(kept), reads(Port::DY), writes(Port::DX)};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> leaky_relu_spec();
std::unique_ptr<OpSpec> leaky_relu_spec() { return std::make_unique<LeakyReluSpec>(); }

}  // namespace tr
