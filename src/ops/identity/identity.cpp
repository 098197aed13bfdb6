/// y = x. A view: normally no node. Its kernels copy, for where the compiler needs the bytes elsewhere.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class IdentitySpec : public OpSpec {
 public:
  std::string_view name() const override { return "identity"; }
  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }
  bool is_view(const Attributes&) const override { return true; }
  bool passes_gradient_through(const Attributes&) const override { return true; }
  std::vector<Pass> backward_passes(const OpQuery&) const override { return {}; }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass != Pass::FORWARD && pass != Pass::INFERENCE) return {};
    return {reads(Port::X), writes(Port::Y)};
  }
};

}  // namespace

std::unique_ptr<OpSpec> identity_spec();
std::unique_ptr<OpSpec> identity_spec() { return std::make_unique<IdentitySpec>(); }

}  // namespace tr
