#include "ops/dropout/dropout.h"

namespace tr {
namespace {

class DropoutSpec : public OpSpec {
 public:
  std::string_view name() const override { return "dropout"; }

  std::vector<AttrSpec> schema() const override {
    return {{"probability", 0.5, 0.0, "chance of an element to be zeroed"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    const double probability = attrs.number("probability");
    TR_CHECK(probability >= 0.0 && probability <= 1.0, ValueError,
             cat(who, ": probability is ", probability, "; it must be from 0 to 1"));
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }
  bool is_view(const Attributes& attrs) const override { return attrs.number("probability") == 0.0; }

  std::vector<SavedSpec> saved(const OpQuery& query) const override {
    return {{"mask", Region::S_MASK, Shape(1, 1, 1, (query.y.numel() + 7) / 8)}};
  }

  FlattenedInput flattened_input() const override { return FlattenedInput::KEPT; }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::DY), reads(Port::SAVED), writes(Port::DX)};
    if (pass == Pass::INFERENCE) return {reads(Port::X), writes(Port::Y)};
    return {reads(Port::X), reads(Port::BASELINE, DROPOUT_SEED), reads(Port::BASELINE, DROPOUT_COUNTER),
            writes(Port::Y), writes(Port::SAVED)};
  }

  std::vector<InPlace> in_place(const OpQuery&, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {};
    return {{writes(Port::DX), reads(Port::DY)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> dropout_spec();
std::unique_ptr<OpSpec> dropout_spec() { return std::make_unique<DropoutSpec>(); }

}  // namespace tr
