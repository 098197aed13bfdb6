/// [N, H, W, C] as [N, 1, 1, H*W*C]: a view of the same bytes, in every pass; it has no node.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class FlattenSpec : public OpSpec {
 public:
  std::string_view name() const override { return "flatten"; }
  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override {
    return {x[0].n(), 1, 1, x[0].h() * x[0].w() * x[0].c()};
  }
  bool is_view(const Attributes&) const override { return true; }
  std::vector<Pass> backward_passes(const OpQuery&) const override { return {}; }
  std::vector<Use> uses(const OpQuery&, Pass) const override { return {}; }
};

}  // namespace

std::unique_ptr<OpSpec> flatten_spec();
std::unique_ptr<OpSpec> flatten_spec() { return std::make_unique<FlattenSpec>(); }

}  // namespace tr
