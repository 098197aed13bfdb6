/// Stochastic depth: drops what a residual branch adds, for whole samples (mode row) or for the whole batch
/// (mode batch), with `probability`; what stays is scaled by 1 / (1 - probability).
///   x, y: any shape, equal; y = x factor[n], factor 0 or the scale
/// INFERENCE is the identity; with probability 0 the layer is a view.
/// FORWARD saves one byte a sample, 1 for kept, in S_MASK, and backward keeps nothing else. As in
/// torchvision, a dropped sample is multiplied by 0, so that what is not finite shows. Random bits are
/// dropout's, sample n (0 in mode batch) taking the place of the element: word n % 4 of
/// Philox(DROPOUT_SEED).at(DROPOUT, stream DROPOUT_COUNTER, index n / 4), the layer's name hashed into the
/// index. Source: G. Huang et al., "Deep networks with stochastic depth", ECCV 2016.
#pragma once

#include "ops/dropout/dropout.h"
#include "renaissance/core/philox.h"

namespace tr {

struct StochasticDepthDraw {
  explicit StochasticDepthDraw(const OpQuery& query)
      : index_base(dropout_index_base(query.layer)),
        threshold(dropout_threshold(query.attrs.number("probability"))),
        scale(dropout_scale(query.attrs.number("probability"))),
        by_row(query.attrs.text("mode") == "row") {}

  constexpr bool keeps(int32_t seed, int32_t counter, int64_t sample) const {
    const uint64_t draw = by_row ? static_cast<uint64_t>(sample) : 0;
    const Philox random(static_cast<uint32_t>(seed));
    const Philox::Block words =
        random.at(RandomPurpose::DROPOUT, static_cast<uint32_t>(counter), index_base ^ (draw / 4));
    return words[draw % 4] >> 8 >= threshold;
  }

  uint64_t index_base;
  uint32_t threshold;
  float scale;
  bool by_row;
};

}  // namespace tr
