/// Which captured graph serves which (variant, program, input buffer): variants whose input shapes coincide
/// share captures.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "renaissance/core/types.h"

namespace tr {

enum class Variant : uint8_t { TRAIN_BASE, TRAIN_LAST, TRAIN_LOWRES, TRAIN_LOWRES_LAST, VAL_BASE, VAL_LAST };
inline constexpr int NUM_VARIANTS = 6;
std::string_view variant_name(Variant variant);
inline bool is_training(Variant variant) { return variant < Variant::VAL_BASE; }

enum class InputBuffer : uint8_t { A, B };

/// A whole step. TRAIN runs every part but INFERENCE; EVAL runs INPUT, INFERENCE and METRICS. A training
/// variant has the TRAIN program, a validation variant EVAL.
enum class Program : uint8_t { TRAIN, EVAL };
inline constexpr int NUM_PROGRAMS = 2;
std::string_view program_name(Program program);
inline Program program_of(Variant variant) { return is_training(variant) ? Program::TRAIN : Program::EVAL; }

/// What a captured step of a variant does.
enum class StepKind : uint8_t {
  WHOLE,        ///< the variant's program
  MICRO_BATCH,  ///< a training step up to its gradients, which wait for those of the next ones
  AVERAGED      ///< an evaluation with the averaged weights
};
std::string_view step_kind_name(StepKind kind);

struct Capture {
  Variant variant;  ///< the first of those that share it
  InputBuffer buffer;
};

class GraphAtlas {
 public:
  GraphAtlas() = default;
  /// `inputs`: the six input shapes.
  explicit GraphAtlas(const std::array<Shape, NUM_VARIANTS>& inputs);

  const std::vector<Capture>& captures() const { return captures_; }
  /// Index into captures().
  int find(Variant variant, InputBuffer buffer) const {
    return index_[static_cast<size_t>(variant)][static_cast<size_t>(buffer)];
  }

 private:
  std::vector<Capture> captures_;
  std::array<std::array<int, 2>, NUM_VARIANTS> index_{};
};

}  // namespace tr
