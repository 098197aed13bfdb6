/// A factor for each channel of each image, as squeeze-and-excitation has it.
///   x0: [N, H, W, C]   x1: [N, 1, 1, C]   y[n,h,w,c] = x0[n,h,w,c] x1[n,c]
///   dx0[n,h,w,c] = dy[n,h,w,c] x1[n,c]   dx1[n,c] = sum over h, w of dy[n,h,w,c] x0[n,h,w,c]
/// Backward keeps x1, and x0 where x1 needs its gradient.
/// Source: J. Hu, L. Shen, G. Sun, "Squeeze-and-excitation networks", CVPR 2018.
#include "renaissance/graph/op_spec.h"

namespace tr {

namespace {

class ChannelScaleSpec : public OpSpec {
 public:
  std::string_view name() const override { return "channel_scale"; }
  int num_inputs(const Attributes&) const override { return 2; }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string& who) const override {
    const Shape factors(x[0].n(), 1, 1, x[0].c());
    TR_CHECK(x[1] == factors, ShapeError,
             cat(who, ": factors are ", x[1], ", input ", x[0], " needs ", factors,
                 "; let their branch begin with gap and end with the input's channels"));
    return x[0];
  }

  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx[0] || query.needs_dx[1] ? std::vector{Pass::BACKWARD} : std::vector<Pass>{};
  }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {reads(Port::X, 0), reads(Port::X, 1), writes(Port::Y)};
    std::vector<Use> uses{reads(Port::DY)};
    if (query.needs_dx[1]) uses.push_back(reads(Port::X, 0));
    if (query.needs_dx[0]) uses.push_back(reads(Port::X, 1));
    for (const int i : {0, 1})
      if (query.needs_dx[static_cast<size_t>(i)]) uses.push_back(writes(Port::DX, i));
    return uses;
  }

  std::vector<InPlace> in_place(const OpQuery& query, Pass pass) const override {
    if (pass != Pass::BACKWARD) return {{writes(Port::Y), reads(Port::X, 0)}};
    if (!query.needs_dx[0]) return {};
    return {{writes(Port::DX, 0), reads(Port::DY)}};
  }
};

}  // namespace

std::unique_ptr<OpSpec> channel_scale_spec();
std::unique_ptr<OpSpec> channel_scale_spec() { return std::make_unique<ChannelScaleSpec>(); }

}  // namespace tr
