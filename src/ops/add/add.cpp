/// Elementwise sum of two tensors of equal shape: y = x0 + x1. The gradient of each input is that of y,
/// so no backward node exists; the compiler uses the forward pass to sum gradients too.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class AddSpec : public OpSpec {
 public:
  std::string_view name() const override { return "add"; }
  int num_inputs(const Attributes&) const override { return 2; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string& who) const override {
    TR_CHECK(x[0] == x[1], ShapeError,
             cat(who, ": inputs ", x[0], " and ", x[1],
                 " differ; the branches of a residual must keep the shape, or use a projection"));
    return x[0];
  }

  bool passes_gradient_through(const Attributes&) const override { return true; }
  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Pass> backward_passes(const OpQuery&) const override { return {}; }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass != Pass::FORWARD && pass != Pass::INFERENCE) return {};
    return {reads(Port::X, 0), reads(Port::X, 1), writes(Port::Y)};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass) const override {
    return {{writes(Port::Y), reads(Port::X, 0)}, {writes(Port::Y), reads(Port::X, 1)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> add_spec();
std::unique_ptr<OpSpec> add_spec() { return std::make_unique<AddSpec>(); }

}  // namespace tr
