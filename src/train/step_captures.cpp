#include "train/step_captures.h"

namespace tr {

namespace {

constexpr std::array KINDS{StepKind::WHOLE, StepKind::MICRO_BATCH, StepKind::AVERAGED};

bool has_step(const PlanConfig& config, Variant variant, StepKind kind) {
  if (kind == StepKind::WHOLE) return true;
  return is_training(variant) ? kind == StepKind::MICRO_BATCH && config.accumulates
                              : kind == StepKind::AVERAGED && config.has_ema;
}

}  // namespace

StepCaptures::StepCaptures(Context& context) : model_(context.model()) {
  for (const StepKind kind : KINDS)
    for (const Capture& capture : model_.atlas.captures())
      steps_[static_cast<size_t>(kind)].push_back(has_step(model_.request.config, capture.variant, kind)
                                                      ? context.capture(capture.variant, capture.buffer, kind)
                                                      : nullptr);
  const auto capture_part = [&](GraphId part) {
    return model_.graph.part(part).empty() ? nullptr
                                           : context.capture_parts(Variant::VAL_BASE, InputBuffer::A, {part});
  };
  setup_ = capture_part(GraphId::EVAL_SETUP);
  setup_averaged_ = capture_part(GraphId::EVAL_SETUP_EMA);
  switch_ = capture_part(GraphId::EMA_SWITCH);
}

void StepCaptures::launch(Variant variant, InputBuffer buffer, StepKind kind) {
  const auto captured = static_cast<size_t>(model_.atlas.find(variant, buffer));
  steps_[static_cast<size_t>(kind)][captured]->launch();
}

void StepCaptures::prepare_evaluation(bool averaged) { launch_part(averaged ? setup_averaged_ : setup_); }
void StepCaptures::switch_to_averages() { launch_part(switch_); }

void StepCaptures::launch_part(const Step& part) {
  if (part) part->launch();
}

}  // namespace tr
