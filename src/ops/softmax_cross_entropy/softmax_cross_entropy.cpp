/// The loss: mean cross entropy of softmax, with what is measured beside it. Emitted by the compiler.
///   x: logits [N, 1, 1, classes]   LABEL: [N], -1 for a sample that does not count
///   loss = mean over counted samples of (1 - s) * (lse - x[label]) + s * mean over classes of (lse - x)
/// where lse = log(sum(exp(x))) and s is LABEL_SMOOTHING, as PyTorch's CrossEntropyLoss; INFERENCE has s = 0.
/// With `mix`, a batch whose BatchMix (INPUT_A_MIX) mixes has the loss (1 - share) of label n plus share of
/// label N - 1 - n, smoothing being part of both: cross entropy with the target mixed likewise. Ranks are
/// then those of the label with the larger share, n's own where both are equal. INFERENCE never mixes.
/// FORWARD writes dx too, times LOSS_SCALE, so there is no backward pass. Without a counted sample loss,
/// top-k and gradient are 0. A label that is no class makes the loss and its sample's gradient NaN, and
/// so does one of -1 that a counted sample is mixed with.
/// TOP1 and TOP5 are fractions of counted samples; a sample's rank is the number of larger logits plus that
/// of equal ones before it. A sample with a NaN logit counts as wrong. PREDICTED_LABEL is the first maximum,
/// or the first NaN.
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

class SoftmaxCrossEntropySpec : public OpSpec {
 public:
  std::string_view name() const override { return "softmax_cross_entropy"; }

  std::vector<AttrSpec> schema() const override {
    return {{"mix", false, false, "set by the compiler: samples of a training batch are mixed"}};
  }

  Shape infer(const Attributes&, std::span<const Shape> x, const std::string& who) const override {
    TR_CHECK(x[0].h() == 1 && x[0].w() == 1, ShapeError,
             cat(who, ": logits are ", x[0],
                 ", expected [N,1,1,classes]; end the network with flatten() or "
                 "gap() and fc(classes)"));
    return x[0];
  }

  std::vector<Pass> backward_passes(const OpQuery&) const override { return {}; }

  std::vector<Use> uses(const OpQuery& query, Pass pass) const override {
    std::vector<Use> uses{reads(Port::X), reads(Port::BASELINE, LABEL)};
    if (pass == Pass::FORWARD) {
      uses.push_back(reads(Port::BASELINE, LABEL_SMOOTHING));
      uses.push_back(reads(Port::BASELINE, LOSS_SCALE));
      if (query.attrs.flag("mix")) uses.push_back(reads(Port::BASELINE, INPUT_A_MIX));
      if (query.needs_dx[0]) uses.push_back(writes(Port::DX));
    } else {
      uses.push_back(writes(Port::BASELINE, PREDICTED_LABEL));
    }
    for (const int id : {LOSS, TOP1, TOP5}) uses.push_back(writes(Port::BASELINE, id));
    return uses;
  }

  /// Loss, two hits and a spare of each sample, FP32, summed in order by one block.
  Offer offer_cuda(const OpQuery& query, Pass) const override { return {{}, 4 * 4 * query.x[0].n()}; }
};

}  // namespace

std::unique_ptr<OpSpec> softmax_cross_entropy_spec();
std::unique_ptr<OpSpec> softmax_cross_entropy_spec() { return std::make_unique<SoftmaxCrossEntropySpec>(); }

}  // namespace tr
