/// Mean over square windows; the padding counts as zeros (PyTorch's count_include_pad).
///   x: [N, H, W, C]   y: [N, P, Q, C]
/// Backward keeps nothing.
#include "ops/support/pool.h"

namespace tr {
namespace {

class AvgPoolSpec : public OpSpec {
 public:
  std::string_view name() const override { return "avgpool"; }
  std::vector<AttrSpec> schema() const override { return PoolAttributes::schema(); }
  void check(const Attributes& attrs, const std::string& who) const override {
    PoolAttributes::check(attrs, who);
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const override {
    return PoolAttributes(attrs).infer(x[0], who);
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

std::unique_ptr<OpSpec> avgpool_spec();
std::unique_ptr<OpSpec> avgpool_spec() { return std::make_unique<AvgPoolSpec>(); }

}  // namespace tr
