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
  const bool exponential = schedule.kind == ScheduleKind::EXPONENTIAL;
  spec.decay_steps = std::max<int64_t>(exponential ? steps_per_epoch : steps(schedule.step_epochs), 1);
  spec.warmup = schedule.warmup;
  spec.annealing = schedule.annealing;
  TR_CHECK(schedule.milestones.size() <= ScheduleSpec::MOST_MILESTONES, RecipeError,
           cat("'schedule.milestones' has ", schedule.milestones.size(), " values, expected at most ",
               ScheduleSpec::MOST_MILESTONES));
  for (const double milestone : schedule.milestones)
    spec.milestones[spec.num_milestones++] = steps(milestone);
  spec.power = schedule.power;
  spec.restart_steps = std::max<int64_t>(steps(schedule.restart_epochs), 1);
  spec.restart_factor = schedule.restart_mult;
  spec.peak_fraction = schedule.pct_start;
  if (schedule.kind == ScheduleKind::ONE_CYCLE) {
    spec.start_fraction = 1.0 / schedule.div_factor;
    spec.final_fraction = 1.0 / (schedule.div_factor * schedule.final_div_factor);
  }
  if (schedule.interval == ScheduleInterval::EPOCH) spec.hold_steps = steps_per_epoch;
  return spec;
}

std::vector<float> per_channel(std::string_view key, const std::vector<double>& given, int64_t channels,
                               float otherwise) {
  TR_CHECK(given.size() <= 1 || std::ssize(given) == channels, RecipeError,
           cat("'", key, "' has ", given.size(), " values, expected 1 or ", channels,
               ", the channels of the data"));
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

void set_update_options(const Recipe& recipe, CompileRequest& request) {
  request.config.accumulates = recipe.train.accumulate > 1;
  request.config.has_ema = recipe.ema.decay > 0.0;
  request.ema = {recipe.ema.decay, recipe.ema.warmup};
  request.decay_norm_and_bias = recipe.optimizer.decay_norm_and_bias;
  request.decoupled_decay = recipe.optimizer.decoupled_decay;
  request.clip_norm = recipe.optimizer.clip_norm;
  request.loss_scale_growth_steps = recipe.train.loss_scale_growth_steps;
  request.freeze = recipe.train.freeze;
  request.freeze_statistics = recipe.train.freeze_statistics;
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
  request.model = recipe.model.name.empty() ? recipe.model.layers
                                            : make_model(recipe.model.name, info.classes,
                                                         {recipe.model.dropout, recipe.model.drop_path});
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
  request.config.bn_folded = recipe.train.bn_folded;
  request.recompute = recipe.recompute;
  request.budget_bytes = recipe.budget_bytes;
  request.target = default_target(recipe.device);
  request.target.ranks = recipe.ranks;
  request.target.threads = recipe.threads;
  request.target.workspace_cap_bytes = recipe.workspace_cap_bytes;
  request.target.deterministic = recipe.deterministic;
  request.target.allow_tf32 = recipe.allow_tf32;
  request.pixel_mean = per_channel("data.mean", recipe.data.mean, info.channels, 0.0f);
  request.pixel_std = per_channel("data.std", recipe.data.std, info.channels, 1.0f);
  request.schedule = schedule_spec(recipe, divide_up(steps.steps_per_epoch(), train.accumulate));
  request.mix_samples = recipe.augment.mixup > 0.0 || recipe.augment.cutmix > 0.0;
  set_update_options(recipe, request);
  request.plan_only = plan_only;
  return request;
}

}  // namespace tr
