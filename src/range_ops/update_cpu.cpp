// The optimizers: one loop over a whole block of parameters, or over each part of it that trains. The
// mathematics is PyTorch's to the letter (torch.optim.SGD, Adam, AdamW), and for LARS that of MLPerf's
// reference (lars_optimizer.py of its ResNet in TensorFlow): the momentum holds updates that the learning
// rate has scaled. Slot padding holds zeros and stays zero under every rule.
#include <cmath>

#include "core/parallel.h"
#include "range_ops/range_ops_cpu.h"
#include "range_ops/update_segments.h"

namespace tr {

namespace {

struct Block {
  float* w = nullptr;
  const float* g = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  int64_t elements = 0;
  const float* trust = nullptr;  ///< LARS: of the block, a tensor then; null: 1
};

struct Scalars {
  const float *learning_rate, *momentum, *weight_decay, *beta1, *beta2, *epsilon, *correction1, *correction2;
};

/// Decay of the weights themselves, before a step that has none.
void shrink(const Block& b, const Scalars& s) {
  const float factor = 1.0f - *s.learning_rate * *s.weight_decay;
  parallel_pieces(b.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) b.w[i] *= factor;
  });
}

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

void lars(const Block& b, const Scalars& s, bool decays, bool nesterov) {
  const float mu = *s.momentum, decay = decays ? *s.weight_decay : 0.0f;
  const float rate = *s.learning_rate * (b.trust != nullptr ? *b.trust : 1.0f);
  parallel_pieces(b.elements, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float update = rate * (b.g[i] + decay * b.w[i]);
      const float velocity = mu * b.m[i] + update;
      b.m[i] = velocity;
      b.w[i] -= nesterov ? update + mu * velocity : velocity;
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
  const RangeOp op = node.range_op;
  const auto range = [&](const std::vector<RegionRange>& ranges, size_t index) {
    return index < ranges.size() ? float_range(binding, ranges[index]).data : nullptr;
  };
  const float* gradients = range(node.in, 0);
  float *weights = range(node.out, 0), *first_moment = range(node.out, 1),
        *second_moment = range(node.out, 2);
  std::vector<Block> blocks;
  for (const UpdateSegment& segment : update_segments(node, binding.model, binding.plan)) {
    const auto from = [&](auto* data) { return data == nullptr ? nullptr : data + segment.first; };
    blocks.push_back({from(weights), from(gradients), from(first_moment), from(second_moment),
                      segment.elements,
                      segment.trust == NO_TENSOR ? nullptr : binding.floats(segment.trust)});
  }
  if (blocks.empty()) return {};
  const Scalars scalars{binding.scalar(LEARNING_RATE),
                        binding.scalar(MOMENTUM),
                        binding.scalar(WEIGHT_DECAY),
                        binding.scalar(BETA1),
                        binding.scalar(BETA2),
                        binding.scalar(EPSILON),
                        binding.scalar(BIAS_CORRECTION1),
                        binding.scalar(BIAS_CORRECTION2)};
  const int32_t* nan_flag = binding.counter(NAN_FLAG);
  const bool decays = op >= RangeOp::RANGE_UPDATE_WEIGHT_SGD;
  // AdamW's loop does that itself.
  const bool shrinks = decays && node.decoupled_decay && op != RangeOp::RANGE_UPDATE_WEIGHT_ADAMW;
  const auto when_clean = [&](auto update) -> Call {
    return [nan_flag, shrinks, scalars, update, blocks = std::move(blocks)] {
      if (*nan_flag != 0) return;
      for (const Block& block : blocks) {
        if (shrinks) shrink(block, scalars);
        update(block);
      }
    };
  };
  switch (op) {
    case RangeOp::RANGE_UPDATE_BIAS_SGD:
    case RangeOp::RANGE_UPDATE_WEIGHT_SGD:
      return when_clean([=](const Block& block) { sgd(block, scalars, decays && !shrinks); });
    case RangeOp::RANGE_UPDATE_BIAS_MOMENTUM:
    case RangeOp::RANGE_UPDATE_WEIGHT_MOMENTUM:
      return when_clean([=](const Block& block) { momentum(block, scalars, decays && !shrinks, false); });
    case RangeOp::RANGE_UPDATE_BIAS_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_NESTEROV:
      return when_clean([=](const Block& block) { momentum(block, scalars, decays && !shrinks, true); });
    case RangeOp::RANGE_UPDATE_BIAS_LARS:
    case RangeOp::RANGE_UPDATE_WEIGHT_LARS:
      return when_clean([=](const Block& block) { lars(block, scalars, decays, false); });
    case RangeOp::RANGE_UPDATE_BIAS_LARS_NESTEROV:
    case RangeOp::RANGE_UPDATE_WEIGHT_LARS_NESTEROV:
      return when_clean([=](const Block& block) { lars(block, scalars, decays, true); });
    default: {
      const bool decoupled = op == RangeOp::RANGE_UPDATE_WEIGHT_ADAMW;
      return when_clean([=](const Block& block) { adam(block, scalars, decays, decoupled); });
    }
  }
}

}  // namespace tr
