/// Every step that a training captures before its first, by what is to run.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "renaissance/backend/backend.h"

namespace tr {

class StepCaptures {
 public:
  /// Captures all that the model's configuration may run. `context` must outlive it.
  explicit StepCaptures(Context& context);

  /// MICRO_BATCH and AVERAGED are there where the model has such steps.
  void launch(Variant variant, InputBuffer buffer, StepKind kind);
  /// What an evaluation needs once before its first step; `averaged`: of the averaged weights.
  void prepare_evaluation(bool averaged);
  /// The averaged weights become the trained ones; only with EMA.
  void switch_to_averages();

 private:
  using Step = std::unique_ptr<CapturedStep>;

  void launch_part(const Step& part);

  const CompiledModel& model_;
  std::array<std::vector<Step>, 3> steps_;  ///< by StepKind and capture of the atlas
  Step setup_, setup_averaged_, switch_;    ///< null where there is nothing to do
};

}  // namespace tr
