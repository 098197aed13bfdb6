#include "ops/activations/activations.h"

#include <cmath>
#include <limits>

namespace tr {
namespace {

class ActivationSpec : public OpSpec {
 public:
  ActivationSpec(std::string_view name, ActivationKind kind) : name_(name), kind_(kind) {}

  std::string_view name() const override { return name_; }

  std::vector<AttrSpec> schema() const override {
    if (kind_ == ActivationKind::ELU) return {{"alpha", 1.0, 0.0, "y tends to -alpha for small inputs"}};
    if (kind_ == ActivationKind::GELU)
      return {{"approximate", std::string("none"), std::string(), "'none' or 'tanh', the formula"}};
    return {};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    if (kind_ == ActivationKind::ELU) {
      const double alpha = attrs.number("alpha");
      TR_CHECK(std::abs(alpha) <= double{std::numeric_limits<float>::max()}, ValueError,
               cat(who, ": alpha is ", alpha, "; it must be finite in fp32, usually 1"));
    }
    if (kind_ == ActivationKind::GELU) {
      const std::string& approximate = attrs.text("approximate");
      TR_CHECK(approximate == "none" || approximate == "tanh", ValueError,
               cat(who, ": approximate is '", approximate, "'; use 'none' or 'tanh'"));
    }
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }

  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {reads(Port::X), writes(Port::Y)};
    return {reads(kept(query.attrs)), reads(Port::DY), writes(Port::DX)};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }

 private:
  /// y where the derivative is a function of it, since the layer behind usually keeps it anyway.
  Port kept(const Attributes& attrs) const {
    switch (kind_) {
      case ActivationKind::SIGMOID:
      case ActivationKind::TANH:
      case ActivationKind::RELU6:
        return Port::Y;
      case ActivationKind::ELU:
        return activation_of(kind_, attrs).alpha < 0.0f ? Port::X : Port::Y;
      default:
        return Port::X;
    }
  }

  std::string_view name_;
  ActivationKind kind_;
};

}  // namespace

#define TR_MAKE_SPEC(op, KIND)         \
  std::unique_ptr<OpSpec> op##_spec(); \
  std::unique_ptr<OpSpec> op##_spec() { return std::make_unique<ActivationSpec>(#op, ActivationKind::KIND); }
TR_ACTIVATIONS(TR_MAKE_SPEC)

}  // namespace tr
