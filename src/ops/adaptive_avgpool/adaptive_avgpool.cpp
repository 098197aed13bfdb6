#include "ops/adaptive_avgpool/adaptive_avgpool.h"

#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class AdaptiveAvgPoolSpec : public OpSpec {
 public:
  std::string_view name() const override { return "adaptive_avgpool"; }

  std::vector<AttrSpec> schema() const override {
    return {{"size", std::nullopt, int64_t{1}, "height and width of the output"}};
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    TR_CHECK(attrs.integer("size") > 0, ValueError,
             cat(who, ": size is ", attrs.integer("size"), "; it must be at least 1"));
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string&) const override {
    return {x[0].n(), attrs.integer("size"), attrs.integer("size"), x[0].c()};
  }

  bool changes_nothing(const Attributes& attrs, const Shape& x) const override {
    return x.h() == attrs.integer("size") && x.w() == attrs.integer("size");
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

std::unique_ptr<OpSpec> adaptive_avgpool_spec();
std::unique_ptr<OpSpec> adaptive_avgpool_spec() { return std::make_unique<AdaptiveAvgPoolSpec>(); }

}  // namespace tr
