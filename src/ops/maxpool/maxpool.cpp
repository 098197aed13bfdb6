/// Maximum over square windows; padding never wins.
///   x: [N, H, W, C]   y: [N, P, Q, C]
/// The first maximum of a window in row order wins; a NaN in the window gives NaN.
/// FORWARD saves each maximum's place in its window, row * kernel + column, as one byte: kernel * kernel <=
/// 255. Backward keeps those bytes only.
#include "ops/support/pool.h"

namespace tr {
namespace {

class MaxPoolSpec : public OpSpec {
 public:
  std::string_view name() const override { return "maxpool"; }
  std::vector<AttrSpec> schema() const override {
    std::vector<AttrSpec> schema = PoolAttributes::schema();
    schema.push_back({"ceil", false, false, "a last window may reach over the end, as PyTorch's ceil_mode"});
    return schema;
  }

  void check(const Attributes& attrs, const std::string& who) const override {
    PoolAttributes::check(attrs, who);
    const int64_t kernel = attrs.integer("kernel");
    TR_CHECK(kernel <= 15, ValueError,
             cat(who, ": kernel is ", kernel, "; it must be at most 15, a place in the window is one byte"));
  }

  Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const override {
    return PoolAttributes(attrs).infer(x[0], who);
  }

  std::vector<SavedSpec> saved(const OpQuery& query) const override {
    return {{"place", Region::S_MASK, query.y}};
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::DY), reads(Port::SAVED), writes(Port::DX)};
    std::vector<Use> uses{reads(Port::X), writes(Port::Y)};
    if (pass == Pass::FORWARD) uses.push_back(writes(Port::SAVED));
    return uses;
  }
};

}  // namespace

std::unique_ptr<OpSpec> maxpool_spec();
std::unique_ptr<OpSpec> maxpool_spec() { return std::make_unique<MaxPoolSpec>(); }

}  // namespace tr
