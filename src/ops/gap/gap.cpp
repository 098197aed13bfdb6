/// Global average pooling.
///   x: [N, H, W, C]   y: [N, 1, 1, C], the mean over H and W
/// Backward keeps nothing.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class GapSpec : public OpSpec {
 public:
  std::string_view name() const override { return "gap"; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override {
    return {x[0].n(), 1, 1, x[0].c()};
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::DY), writes(Port::DX)};
    return {reads(Port::X), writes(Port::Y)};
  }
};

}  // namespace

std::unique_ptr<OpSpec> gap_spec();
std::unique_ptr<OpSpec> gap_spec() { return std::make_unique<GapSpec>(); }

}  // namespace tr
