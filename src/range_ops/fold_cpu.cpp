// RANGE_FOLD_BN: what batch norm does with its running statistics, as a scale and a bias per channel.
#include <cmath>

#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

struct FoldedLayer {
  const float *weight, *bias, *mean, *variance;
  float *scale, *offset;
  int64_t channels;
  double epsilon;

  void fold() const {
    for (int64_t c = 0; c < channels; ++c) {
      const double factor = double{weight[c]} / std::sqrt(double{variance[c]} + epsilon);
      scale[c] = static_cast<float>(factor);
      offset[c] = static_cast<float>(double{bias[c]} - double{mean[c]} * factor);
    }
  }
};

}  // namespace

Call bind_fold_cpu(const RangeBinding& binding) {
  const bool averaged = binding.node.in.at(0).first == Region::E_BN_BIAS;
  const auto at = [&](TensorId id) {
    return reinterpret_cast<float*>(binding.base + binding.plan.tensor(id).offset);
  };
  const auto parameter = [&](const ParameterTensors& p) { return at(averaged ? p.ema : p.master); };
  std::vector<FoldedLayer> layers;
  for (const Statistics& s : binding.model.statistics)
    layers.push_back({parameter(s.weight), parameter(s.bias), at(s.tensors.prev_mean), at(s.tensors.prev_var),
                      at(s.tensors.eq_scale), at(s.tensors.eq_bias), s.channels, s.epsilon});
  return [layers = std::move(layers)] {
    for (const FoldedLayer& layer : layers) layer.fold();
  };
}

}  // namespace tr
