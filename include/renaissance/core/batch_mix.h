/// How the samples of one batch are mixed, as a plain value that travels with the batch: a loader draws it,
/// the arena holds it beside the labels (INPUT_A_MIX, INPUT_B_MIX), and whoever mixes pixels or labels reads
/// it.
///
/// Sample i of a batch of N is mixed with its partner, sample N - 1 - i. All bytes zero: nothing is mixed.
/// Sources: H. Zhang et al., "mixup: Beyond empirical risk minimization", ICLR 2018; S. Yun et al., "CutMix:
/// Regularization strategy to train strong classifiers with localizable features", ICCV 2019; the partner as
/// in timm's Mixup.
#pragma once

#include <cstdint>

namespace tr {

struct BatchMix {
  float share = 0.0f;  ///< 1 - λ: of the partner's label, and under mixup of its pixels; 0 … 1
  /// CutMix: rows top … bottom - 1, columns left … right - 1 are the partner's. Mixup: empty.
  int32_t top = 0, left = 0, bottom = 0, right = 0;
  int32_t unused[3] = {};

  constexpr bool mixes() const { return share != 0.0f; }
  constexpr bool has_box() const { return bottom > top && right > left; }
  constexpr bool in_box(int64_t row, int64_t column) const {
    return row >= top && row < bottom && column >= left && column < right;
  }
  constexpr bool operator==(const BatchMix&) const = default;
};
/// INT32 words of one in the arena.
inline constexpr int64_t BATCH_MIX_WORDS = 8;
static_assert(sizeof(BatchMix) == BATCH_MIX_WORDS * sizeof(int32_t));

/// A pixel under mixup; the same arithmetic on every backend.
constexpr float mixed_pixel(float own, float partner, float share) {
  return (1.0f - share) * own + share * partner;
}

}  // namespace tr
