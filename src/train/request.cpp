// Recipe → CompileRequest: how samples become steps, and steps the six variants.
#include <algorithm>
#include <cmath>

#include "renaissance/models.h"
#include "renaissance/train/trainer.h"

namespace tr {

namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

ScheduleSpec schedule_spec(const Recipe& recipe, int64_t steps_per_epoch) {
  const ScheduleRecipe& schedule = recipe.schedule;
  constexpr double MOST_STEPS = 1e15;  // beyond any training, within an integer
  const auto steps = [&](double epochs) {
    return std::llround(std::min(epochs * static_cast<double>(steps_per_epoch), MOST_STEPS));
  };
  ScheduleSpec spec;
  spec.kind = schedule.kind;
  spec.base = recipe.optimizer.learning_rate;
  spec.final_fraction = schedule.final_fraction;
  spec.warmup_start = schedule.warmup_start;
  spec.gamma = schedule.gamma;
  spec.warmup_steps = steps(schedule.warmup_epochs);
  spec.total_steps = std::max<int64_t>(recipe.train.epochs * steps_per_epoch, 1);
  spec.decay_steps = std::max<int64_t>(steps(schedule.step_epochs), 1);
  return spec;
}

std::vector<float> per_channel(const std::vector<double>& given, int64_t channels, float otherwise) {
  std::vector<float> values(static_cast<size_t>(channels), otherwise);
  for (size_t c = 0; c < values.size() && !given.empty(); ++c)
    values[c] = static_cast<float>(given.size() == 1 ? given[0] : given.at(c));
  return values;
}

}  // namespace

StepPlan plan_steps(const Recipe& recipe, const DataInfo& info) {
  const int64_t ranks = recipe.ranks;
  StepPlan plan;
  plan.batch = recipe.train.batch_size;
  TR_CHECK(plan.batch * ranks <= info.train_samples, RecipeError,
           cat("train.batch_size ", plan.batch, " on ", ranks, " ranks needs ", plan.batch * ranks,
               " samples a step, the data has ", info.train_samples, "; use at most ",
               std::max<int64_t>(info.train_samples / ranks, 1)));
  plan.steps = info.train_samples / (plan.batch * ranks);
  plan.last_batch = info.train_samples % (plan.batch * ranks) / ranks;
  const int64_t wanted = recipe.train.val_batch_size > 0 ? recipe.train.val_batch_size : plan.batch;
  plan.val_batch = std::min(wanted, divide_up(info.val_samples, ranks));
  plan.val_steps = info.val_samples / (plan.val_batch * ranks);
  plan.val_last_batch = divide_up(info.val_samples % (plan.val_batch * ranks), ranks);
  return plan;
}

CompileRequest compile_request(const Recipe& recipe, const DataInfo& info, bool plan_only) {
  const StepPlan steps = plan_steps(recipe, info);
  const auto size = [](int64_t wanted, int64_t otherwise) { return wanted > 0 ? wanted : otherwise; };
  const TrainRecipe& train = recipe.train;
  const int64_t height = size(train.resolution, info.height), width = size(train.resolution, info.width);
  const int64_t low_height = size(train.low_resolution, height),
                low_width = size(train.low_resolution, width);
  const int64_t val_height = size(train.val_resolution, height),
                val_width = size(train.val_resolution, width);
  const auto or_base = [](int64_t last, int64_t base) { return last > 0 ? last : base; };

  CompileRequest request;
  request.model =
      recipe.model.name.empty() ? recipe.model.layers : make_model(recipe.model.name, info.classes);
  const int64_t last = or_base(steps.last_batch, steps.batch),
                val_last = or_base(steps.val_last_batch, steps.val_batch);
  request.inputs = {Shape(steps.batch, height, width, info.channels),
                    Shape(last, height, width, info.channels),
                    Shape(steps.batch, low_height, low_width, info.channels),
                    Shape(last, low_height, low_width, info.channels),
                    Shape(steps.val_batch, val_height, val_width, info.channels),
                    Shape(val_last, val_height, val_width, info.channels)};
  request.classes = info.classes;
  request.config.precision = recipe.precision;
  request.config.optimizer = recipe.optimizer.kind;
  request.config.layout = recipe.layout;
  request.recompute = recipe.recompute;
  request.budget_bytes = recipe.budget_bytes;
  request.target = default_target(recipe.device);
  request.target.ranks = recipe.ranks;
  request.target.threads = recipe.threads;
  request.target.workspace_cap_bytes = recipe.workspace_cap_bytes;
  request.target.deterministic = recipe.deterministic;
  request.target.allow_tf32 = recipe.allow_tf32;
  request.pixel_mean = per_channel(recipe.data.mean, info.channels, 0.0f);
  request.pixel_std = per_channel(recipe.data.std, info.channels, 1.0f);
  request.schedule = schedule_spec(recipe, steps.steps_per_epoch());
  request.decay_norm_and_bias = recipe.optimizer.decay_norm_and_bias;
  request.plan_only = plan_only;
  return request;
}

}  // namespace tr
