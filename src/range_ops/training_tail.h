/// The RANGE nodes that end a training step on one rank, recognized as one piece of work:
///
///   [CAST_FP16_TO_FP32] CHECK_NAN [GRAD_SCALING] [CLIP_NORM] ADVANCE_SCALARS [TRUST_RATIOS] UPDATE UPDATE
///   [CAST_FP32_TO_FP16]
///   [EMA_PARAM_UPDATE] [D2D_COPY of ranges, only when clean] [ACCUM_METRICS]
///
/// over ranges that fit together. Depends on the nodes alone.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "renaissance/graph/computation_graph.h"

namespace tr {

struct TrainingTail {
  const GraphNode* gradient_cast =
      nullptr;  ///< to the last of the checked gradients, which one of `updates` reads
  const GraphNode* check = nullptr;
  const GraphNode* scaling = nullptr;  ///< of all that is checked
  const GraphNode* clip = nullptr;     ///< of all that is checked
  const GraphNode* advance = nullptr;
  const GraphNode* trust = nullptr;  ///< of the second of `updates`
  std::array<const GraphNode*, 2> updates{};
  const GraphNode* weight_cast = nullptr;  ///< from what one of `updates` writes
  const GraphNode* average = nullptr;      ///< of what the updates write; a kernel of its own
  const GraphNode* statistics = nullptr;
  const GraphNode* metrics = nullptr;
  size_t nodes = 0;  ///< taken from the front of what was given
};

/// The tail that `nodes` begin with, as far as it goes; nothing where one of the required nodes is missing.
std::optional<TrainingTail> match_training_tail(std::span<const GraphNode* const> nodes);

bool same_regions(const RegionRange& a, const RegionRange& b);

}  // namespace tr
