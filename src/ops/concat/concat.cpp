/// Joins feature maps along the channels.
///   x[i]: [N, H, W, C_i]   y: [N, H, W, C_0 + C_1 + …], the channels of x[0] first
/// Backward keeps nothing: dx[i] are dy's channels that came from x[i].
#include "renaissance/graph/op_spec.h"

namespace tr {

namespace {

class ConcatSpec : public OpSpec {
 public:
  std::string_view name() const override { return "concat"; }
  int num_inputs(const Attributes&) const override { return SEVERAL; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string& who) const override {
    int64_t channels = 0;
    for (const Shape& part : x) {
      TR_CHECK(part.n() == x[0].n() && part.h() == x[0].h() && part.w() == x[0].w(), ShapeError,
               cat(who, ": inputs ", x[0], " and ", part,
                   " differ in more than channels; let every branch keep or change height and width alike"));
      channels += part.c();
    }
    return {x[0].n(), x[0].h(), x[0].w(), channels};
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    for (const bool needed : query.needs_dx)
      if (needed) return {Pass::BACKWARD};
    return {};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    std::vector<Use> uses;
    if (pass == Pass::BACKWARD) uses.push_back(reads(Port::DY));
    for (size_t i = 0; i < query.x.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (pass != Pass::BACKWARD)
        uses.push_back(reads(Port::X, index));
      else if (query.needs_dx[i])
        uses.push_back(writes(Port::DX, index));
    }
    if (pass != Pass::BACKWARD) uses.push_back(writes(Port::Y));
    return uses;
  }
};

}  // namespace

std::unique_ptr<OpSpec> concat_spec();
std::unique_ptr<OpSpec> concat_spec() { return std::make_unique<ConcatSpec>(); }

}  // namespace tr
