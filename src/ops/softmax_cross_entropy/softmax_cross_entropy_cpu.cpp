#include <cmath>
#include <limits>

#include "ops/support/cpu_loops.h"
#include "renaissance/core/batch_mix.h"

namespace tr {
namespace {

/// What one sample adds; in the workspace, so that sums run in the samples' order.
struct SampleResult {
  double loss;
  int32_t top1, top5;
};

/// What a sample should be: two classes, the second with `share`. Not mixed: the same twice and 0.
struct Target {
  int32_t label, partner;
  float share;

  bool has_class(int64_t classes) const {
    return label >= 0 && label < classes && partner >= 0 && partner < classes;
  }
  int32_t dominant() const { return share > 0.5f ? partner : label; }
};

/// Of a training step; INFERENCE has the defaults.
struct Scalars {
  float smoothing = 0.0f, loss_scale = 1.0f, mix_share = 0.0f;
};

struct SoftmaxCrossEntropy {
  static constexpr int32_t NOT_COUNTED = -1;

  /// Whether the label's rank is below 1 and below 5; with a NaN logit neither holds.
  SampleResult rank(const float* row, int32_t label) const {
    int64_t ahead = 0;
    bool has_nan = false;
    const float own = row[label];
    for (int64_t c = 0; c < classes; ++c) {
      ahead += row[c] > own || (row[c] == own && c < label);
      has_nan |= std::isnan(row[c]);
    }
    return {0.0, !has_nan && ahead < 1, !has_nan && ahead < 5};
  }

  /// Loss and hits of one counted sample; gradient, if not null, gets the gradient times `weight`.
  SampleResult sample(const float* row, const Target& target, float smoothing, float weight,
                      float* gradient) const {
    constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
    if (!target.has_class(classes)) {
      if (gradient != nullptr) std::fill_n(gradient, classes, NOT_A_NUMBER);
      return {double{NOT_A_NUMBER}, 0, 0};
    }
    float largest = row[0];
    for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, row[c]);
    double sum = 0.0, sum_offsets = 0.0;
    for (int64_t c = 0; c < classes; ++c) {
      const float power = std::exp(row[c] - largest);
      if (gradient != nullptr) gradient[c] = power;
      sum += double{power};
      sum_offsets += double{row[c]} - double{largest};
    }
    const double log_sum = std::log(sum), share = double{smoothing} / static_cast<double>(classes);
    SampleResult result = rank(row, target.dominant());
    const auto entropy = [&](int32_t label) { return log_sum - (double{row[label]} - double{largest}); };
    double of_labels = entropy(target.label);
    if (target.share != 0.0f)
      of_labels = (1.0 - double{target.share}) * of_labels + double{target.share} * entropy(target.partner);
    result.loss = (1.0 - double{smoothing}) * of_labels;
    if (smoothing != 0.0f) result.loss += double{smoothing} * log_sum - share * sum_offsets;
    if (gradient == nullptr) return result;
    const float inverse = static_cast<float>(1.0 / sum), even = static_cast<float>(share);
    const double certain = 1.0 - double{smoothing}, second = certain * double{target.share};
    const bool one_label = target.label == target.partner;
    const auto own = static_cast<float>((one_label ? certain : certain - second) + share);
    const auto other = static_cast<float>(second + share);
    for (int64_t c = 0; c < classes; ++c) {
      const float wanted = c == target.label ? own : c == target.partner ? other : even;
      gradient[c] = (gradient[c] * inverse - wanted) * weight;
    }
    return result;
  }

  /// The place of the first maximum, or of the first NaN.
  int32_t predict(const float* row) const {
    int64_t best = 0;
    for (int64_t c = 1; c < classes && !std::isnan(row[best]); ++c)
      if (row[c] > row[best] || std::isnan(row[c])) best = c;
    return static_cast<int32_t>(best);
  }

  void run(const Scalars& scalars) const {
    const int64_t counted = samples - std::count(labels, labels + samples, NOT_COUNTED);
    const double inverse = counted > 0 ? 1.0 / static_cast<double>(counted) : 0.0;
    const float weight = static_cast<float>(double{scalars.loss_scale} * inverse);
#pragma omp parallel for schedule(static) if (samples * classes > 2048)
    for (int64_t n = 0; n < samples; ++n) {
      const float* row = logits + n * classes;
      float* dx_row = dx == nullptr ? nullptr : dx + n * classes;
      if (predicted != nullptr) predicted[n] = predict(row);
      if (labels[n] != NOT_COUNTED) {
        const int32_t partner = scalars.mix_share != 0.0f ? labels[samples - 1 - n] : labels[n];
        results[n] = sample(row, {labels[n], partner, scalars.mix_share}, scalars.smoothing, weight, dx_row);
      } else {
        results[n] = {0.0, 0, 0};
        if (dx_row != nullptr) std::fill_n(dx_row, classes, 0.0f);
      }
    }
    double sum = 0.0;
    int64_t sum1 = 0, sum5 = 0;
    for (int64_t n = 0; n < samples; ++n) {
      sum += results[n].loss;
      sum1 += results[n].top1;
      sum5 += results[n].top5;
    }
    *loss = static_cast<float>(sum * inverse);
    *top1 = static_cast<float>(static_cast<double>(sum1) * inverse);
    *top5 = static_cast<float>(static_cast<double>(sum5) * inverse);
  }

  int64_t samples, classes;
  const float* logits;
  const int32_t* labels;
  float *dx, *loss, *top1, *top5;
  int32_t* predicted;
  SampleResult* results;
};

class SoftmaxCrossEntropyCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override {
    return {cpu_declines(query.dtype), query.x[0].n() * int64_t{sizeof(SampleResult)}};
  }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const Shape& x = binding.query.x[0];
    const bool training = binding.pass == Pass::FORWARD;
    const SoftmaxCrossEntropy call{
        x.n(),
        x.c(),
        binding.data<float>(Port::X),
        binding.data<int32_t>(Port::BASELINE, LABEL),
        binding.has(Port::DX) ? binding.data<float>(Port::DX) : nullptr,
        binding.data<float>(Port::BASELINE, LOSS),
        binding.data<float>(Port::BASELINE, TOP1),
        binding.data<float>(Port::BASELINE, TOP5),
        training ? nullptr : binding.data<int32_t>(Port::BASELINE, PREDICTED_LABEL),
        reinterpret_cast<SampleResult*>(binding.workspace)};
    if (!training) return [call] { call.run({}); };
    const BatchMix* mix =
        binding.query.attrs.flag("mix") ? binding.data<const BatchMix>(Port::BASELINE, INPUT_A_MIX) : nullptr;
    return [call, mix, smoothing = binding.data<float>(Port::BASELINE, LABEL_SMOOTHING),
            scale = binding.data<float>(Port::BASELINE, LOSS_SCALE)] {
      call.run({*smoothing, *scale, mix == nullptr ? 0.0f : mix->share});
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> softmax_cross_entropy_cpu_kernels();
std::unique_ptr<OpKernels> softmax_cross_entropy_cpu_kernels() {
  return std::make_unique<SoftmaxCrossEntropyCpuKernels>();
}

}  // namespace tr
