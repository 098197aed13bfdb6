/// Dropout: each element is zeroed with `probability`, the others are scaled by 1 / (1 - probability).
///   x, y: any shape, equal
/// INFERENCE is the identity; with probability 0 the layer is a view, with 1 everything is zero.
/// FORWARD saves the mask as bits, 1 for kept: element e in bit e % 8 of byte e / 8, the last byte's spare
/// bits zero. Backward keeps the mask only.
/// Random bits: word e % 4 of Philox(DROPOUT_SEED).at(DROPOUT, stream DROPOUT_COUNTER, index e / 4), the
/// layer's name hashed into the index, the same on every backend and for every number of threads. Source: N.
/// Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014.
#pragma once

#include <algorithm>
#include <string_view>

#include "renaissance/graph/op_spec.h"

namespace tr {

/// The high half of every Philox index of a layer: FNV-1a of its name, so that layers draw apart.
constexpr uint64_t dropout_index_base(std::string_view layer) {
  uint32_t hash = 2166136261u;
  for (const char c : layer) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return uint64_t{hash} << 32;
}

/// An element is kept where the upper 24 bits of its random word reach this: uniform(bits) >= probability.
inline uint32_t dropout_threshold(double probability) {
  return static_cast<uint32_t>(std::min(probability, 1.0) * 0x1p24);
}

inline float dropout_scale(double probability) {
  return probability < 1.0 ? static_cast<float>(1.0 / (1.0 - probability)) : 0.0f;
}

}  // namespace tr
