// The optimizers: one loop over a whole block of parameters. The mathematics is PyTorch's to the letter
// (torch.optim.SGD, Adam, AdamW). Slot padding holds zeros and stays zero under every rule.
#include <cmath>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"

namespace tr {

namespace {

struct Block {
  float* w = nullptr;
  const float* g = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  int64_t elements = 0;
};

struct Scalars {
  const float *learning_rate, *momentum, *weight_decay, *beta1, *beta2, *epsilon, *correction1, *correction2;
};

void sgd(const Block& b, const Scalars& s, bool decays) {
  const float lr = *s.learning_rate, decay = decays ? *s.weight_decay : 0.0f;
  parallel_pieces(b.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) b.w[i] -= lr * (b.g[i] + decay * b.w[i]);
  });
}

void momentum(const Block& b, const Scalars& s, bool decays, bool nesterov) {
  const float lr = *s.learning_rate, mu = *s.momentum, decay = decays ? *s.weight_decay : 0.0f;
  parallel_pieces(b.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float g = b.g[i] + decay * b.w[i];
      const float velocity = mu * b.m[i] + g;
      b.m[i] = velocity;
      b.w[i] -= lr * (nesterov ? g + mu * velocity : velocity);
    }
  });
}

/// `decoupled`: AdamW's decay of the weight instead of Adam's decay added to the gradient.
void adam(const Block& b, const Scalars& s, bool decays, bool decoupled) {
  const float decay = decays ? *s.weight_decay : 0.0f;
  const float beta1 = *s.beta1, beta2 = *s.beta2, epsilon = *s.epsilon;
  const float step = *s.learning_rate / *s.correction1, root_correction = std::sqrt(*s.correction2);
  const float shrink = decoupled ? 1.0f - *s.learning_rate * decay : 1.0f, coupled = decoupled ? 0.0f : decay;
  parallel_pieces(b.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float w = b.w[i] * shrink;
      const float g = b.g[i] + coupled * w;
      const float m = b.m[i] + (g - b.m[i]) * (1.0f - beta1);
      const float v = beta2 * b.v[i] + (1.0f - beta2) * g * g;
      b.m[i] = m;
      b.v[i] = v;
      b.w[i] = w - step * m / (std::sqrt(v) / root_correction + epsilon);
    }
  });
}

}  // namespace

Call bind_update_cpu(const RangeBinding& binding) {
  const GraphNode& node = binding.node;
  const FloatRange gradients = float_range(binding, node.in.at(0)),
                   weights = float_range(binding, node.out.at(0));
  if (weights.elements == 0) return {};
  Block block{weights.data, gradients.data, nullptr, nullptr, weights.elements};
  const auto moment = [&](size_t index) { return float_range(binding, node.out.at(index)).data; };
  const Scalars scalars{binding.scalar(LEARNING_RATE),
                        binding.scalar(MOMENTUM),
                        binding.scalar(WEIGHT_DECAY),
                        binding.scalar(BETA1),
                        binding.scalar(BETA2),
                        binding.scalar(EPSILON),
                        binding.scalar(BIAS_CORRECTION1),
                        binding.scalar(BIAS_CORRECTION2)};
  const int32_t* nan_flag = binding.counter(NAN_FLAG);
  const auto when_clean = [nan_flag](auto update) -> Call {
    return [nan_flag, update] {
      if (*nan_flag == 0) update();
    };
  };
  const RangeOp op = node.range_op;
  switch (op) {
    case RangeOp::RANGE_UPDATE_BIAS_SGD:
    case RangeOp::RANGE_UPDATE_WEIGHT_SGD: {
      const bool decays = op == RangeOp::RANGE_UPDATE_WEIGHT_SGD;
      return when_clean([=] { sgd(block, scalars, decays); });
    }
    case RangeOp::RANGE_UPDATE_BIAS_MOMENTUM:
    case RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM:
    case RangeOp::RANGE_UPDATE_BIAS_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV: {
      block.m = moment(1);
      const bool decays =
          op == RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM || op == RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV;
      const bool nesterov =
          op == RangeOp::RANGE_UPDATE_BIAS_NESTEROV || op == RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV;
      return when_clean([=] { momentum(block, scalars, decays, nesterov); });
    }
    default: {
      block.m = moment(1);
      block.v = moment(2);
      const bool decays = op != RangeOp::RANGE_UPDATE_BIAS_ADAM,
                 decoupled = op == RangeOp::RANGE_UPDATE_WEIGHT_ADAMW;
      return when_clean([=] { adam(block, scalars, decays, decoupled); });
    }
  }
}

}  // namespace tr
