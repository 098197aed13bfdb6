#include "renaissance/graph/graph_atlas.h"

namespace tr {

std::string_view step_kind_name(StepKind kind) {
  constexpr std::array<std::string_view, 3> NAMES{"whole", "micro-batch", "averaged"};
  return NAMES.at(static_cast<size_t>(kind));
}

std::string_view program_name(Program program) { return program == Program::TRAIN ? "train" : "eval"; }

std::string_view variant_name(Variant variant) {
  constexpr std::array<std::string_view, NUM_VARIANTS> NAMES{
      "train_base", "train_last", "train_lowres", "train_lowres_last", "val_base", "val_last"};
  return NAMES.at(static_cast<size_t>(variant));
}

GraphAtlas::GraphAtlas(const std::array<Shape, NUM_VARIANTS>& inputs) {
  for (size_t v = 0; v < NUM_VARIANTS; ++v) {
    const auto variant = static_cast<Variant>(v);
    size_t twin = v;
    for (size_t other = 0; other < v && twin == v; ++other)
      if (inputs[other] == inputs[v] && program_of(static_cast<Variant>(other)) == program_of(variant))
        twin = other;
    for (size_t buffer = 0; buffer < 2; ++buffer) {
      if (twin != v) {
        index_[v][buffer] = index_[twin][buffer];
        continue;
      }
      index_[v][buffer] = static_cast<int>(captures_.size());
      captures_.push_back({variant, static_cast<InputBuffer>(buffer)});
    }
  }
}

}  // namespace tr
