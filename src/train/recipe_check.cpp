#include <algorithm>
#include <functional>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "renaissance/models.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

using KeyMistakes = std::vector<KeyMistake>;

void check_name(const Recipe& recipe, KeyMistakes& mistakes) {
  const std::string& name = recipe.name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    mistakes.push_back({"name", cat("'name' is '", name,
                                    "'; it names a folder of runs, so it must not be empty or contain '/'")});
}

void check_files(const DataRecipe& data, KeyMistakes& mistakes) {
  if (data.source != DataSource::IDX || !data.path.empty()) return;
  const bool complete = !data.train_images.empty() && !data.train_labels.empty() &&
                        !data.val_images.empty() && !data.val_labels.empty();
  if (!complete)
    mistakes.push_back({"data",
                        "data.path is missing; give the folder of the IDX files, or data.train_images, "
                        "train_labels, val_images and val_labels, or 'data: synthetic'"});
}

void check_synthetic(const DataRecipe& data, KeyMistakes& mistakes) {
  if (data.source != DataSource::SYNTHETIC) return;
  const std::vector<std::pair<std::string, int64_t>> sizes{
      {"classes", data.classes},         {"train_samples", data.train_samples},
      {"val_samples", data.val_samples}, {"channels", data.channels},
      {"height", data.height},           {"width", data.width}};
  for (const auto& [name, value] : sizes)
    if (value == 0)
      mistakes.push_back({"data." + name, cat("'data.", name, "' is 0; synthetic data need at least 1")});
}

void check_class_names(const DataRecipe& data, KeyMistakes& mistakes) {
  if (!data.class_names.empty() && data.classes > 0 && std::ssize(data.class_names) != data.classes)
    mistakes.push_back({"data.class_names", cat("'data.class_names' has ", data.class_names.size(),
                                                " names, expected ", data.classes, " (data.classes)")});
}

void check_init(const Recipe& recipe, KeyMistakes& mistakes) {
  if (!recipe.init_except.empty() && recipe.init.empty())
    mistakes.push_back({"init_except",
                        "'init_except' says what not to take from 'init', which is missing; name "
                        "the file of weights, or leave both out"});
}

/// One value for all channels, or one for each.
void check_normalization(const DataRecipe& data, KeyMistakes& mistakes) {
  const size_t channels = static_cast<size_t>(std::max<int64_t>(data.channels, 0));
  const auto check = [&](const std::string& key, const std::vector<double>& values) {
    if (values.size() > 1 && channels > 0 && values.size() != channels)
      mistakes.push_back({key, cat("'", key, "' has ", values.size(), " values, expected 1 or ", channels,
                                   " (data.channels)")});
  };
  check("data.mean", data.mean);
  check("data.std", data.std);
  if (channels == 0 && data.mean.size() > 1 && data.std.size() > 1 && data.mean.size() != data.std.size())
    mistakes.push_back({"data.std", cat("'data.std' has ", data.std.size(), " values, 'data.mean' has ",
                                        data.mean.size(), "; expected one per channel in both")});
}

/// A ready network takes options for layers that it has.
void check_model_options(const ModelRecipe& model, KeyMistakes& mistakes) {
  const ModelOptions has = model.name.empty() ? ModelOptions{} : published_options(model.name);
  const auto check = [&](const std::string& key, const std::optional<double>& given, bool takes) {
    if (!given || takes) return;
    mistakes.push_back(
        {key,
         model.name.empty()
             ? cat("'", key, "' is for ready networks; give it to the layer in model.layers")
             : cat("'", key, "' is given, but model '", model.name, "' has no such layer; leave it out")});
  };
  check("model.dropout", model.dropout, has.dropout.has_value());
  check("model.drop_path", model.drop_path, has.drop_path.has_value());
}

void check_model(const ModelRecipe& model, KeyMistakes& mistakes) {
  const bool has_layers = model.layers != BluePrint{};
  if (model.name.empty() && !has_layers)
    mistakes.push_back({"model", "model is missing; give a name such as 'model: resnet18', or model.layers"});
  if (!model.name.empty() && has_layers)
    mistakes.push_back(
        {"model.layers", cat("model has both a name ('", model.name, "') and layers; leave one out")});
  const std::vector<std::string> known = model_names();
  const bool is_known = std::find(known.begin(), known.end(), model.name) != known.end();
  if (is_known || model.name.empty()) check_model_options(model, mistakes);
  if (model.name.empty() || is_known) return;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  const std::string near = nearest_name(model.name, known);
  mistakes.push_back(
      {"model.name", cat("model '", model.name, "' is not known; ",
                         near.empty() ? cat("use one of ", list) : cat("did you mean '", near, "'?"))});
}

void check_optimizer(const OptimizerRecipe& optimizer, KeyMistakes& mistakes) {
  if (optimizer.kind == OptimizerKind::NESTEROV && optimizer.momentum == 0.0)
    mistakes.push_back({"optimizer.momentum",
                        "'optimizer.momentum' is 0, expected above 0 for nesterov; use sgd without it"});
  if (!optimizer.decoupled_decay) return;
  if (optimizer.kind == OptimizerKind::ADAM)
    mistakes.push_back({"optimizer.decoupled_decay",
                        "'optimizer.decoupled_decay' is true for adam; use kind: adamw in its place"});
  if (is_lars(optimizer.kind))
    mistakes.push_back({"optimizer.decoupled_decay",
                        cat("'optimizer.decoupled_decay' is true for ", optimizer_name(optimizer.kind),
                            ", whose trust ratios count the decay as part of the gradient; leave it out")});
}

void check_freezing(const TrainRecipe& train, KeyMistakes& mistakes) {
  if (train.freeze_statistics && train.freeze.empty())
    mistakes.push_back(
        {"train.freeze_statistics",
         "'train.freeze_statistics' is true, but 'train.freeze' names no parameters; it is for "
         "batch norm whose parameters are frozen"});
}

/// Beyond these a number is a slip, and what it asks for would fail with a worse message.
void check_machine(const Recipe& recipe, KeyMistakes& mistakes) {
  constexpr int64_t MOST_THREADS = 1024;
  const auto check = [&](const std::string& key, int64_t value) {
    if (value > MOST_THREADS)
      mistakes.push_back({key, cat("'", key, "' is ", value, ", expected at most ", MOST_THREADS)});
  };
  check("threads", recipe.threads);
  check("ranks", recipe.ranks);
  check("data.workers", recipe.data.workers);
}

void check_milestones(const ScheduleRecipe& schedule, KeyMistakes& mistakes) {
  const std::vector<double>& milestones = schedule.milestones;
  const auto refuse = [&](const std::string& text) {
    mistakes.push_back({"schedule.milestones", cat("'schedule.milestones' ", text)});
  };
  const bool multi_step = schedule.kind == ScheduleKind::MULTI_STEP;
  if (multi_step && milestones.empty())
    refuse("is empty; multi_step needs the epochs after which the learning rate drops, as [30, 60, 80]");
  if (!multi_step && !milestones.empty()) refuse("belongs to kind multi_step; set it, or leave them out");
  if (milestones.size() > ScheduleSpec::MOST_MILESTONES)
    refuse(cat("has ", milestones.size(), " values, expected at most ", ScheduleSpec::MOST_MILESTONES));
  if (std::ranges::adjacent_find(milestones, std::ranges::greater_equal()) != milestones.end())
    refuse("must rise from each value to the next");
}

/// A warm-up that another key makes useless or harmful.
void check_warmup(const ScheduleRecipe& schedule, KeyMistakes& mistakes) {
  if (schedule.warmup_epochs == 0.0) return;
  if (schedule.kind == ScheduleKind::ONE_CYCLE)
    mistakes.push_back({"schedule.warmup_epochs",
                        cat("'schedule.warmup_epochs' is ", schedule.warmup_epochs,
                            ", but one_cycle rises by itself; set schedule.pct_start in its place")});
  const bool held = schedule.interval == ScheduleInterval::EPOCH || schedule.warmup == WarmupKind::CONSTANT;
  if (held && schedule.warmup_start == 0.0)
    mistakes.push_back({"schedule.warmup_start",
                        cat("'schedule.warmup_start' is 0, so ",
                            schedule.warmup == WarmupKind::CONSTANT ? "the warmup" : "the first epoch",
                            " would train with a learning rate of 0; set it above 0")});
}

/// Least and most, of a key that is a pair.
void check_pair(const std::string& key, const std::vector<double>& pair, KeyMistakes& mistakes) {
  if (pair.size() != 2)
    mistakes.push_back({key, cat("'", key, "' has ", pair.size(), " values, expected [least, most]")});
  else if (pair[0] > pair[1])
    mistakes.push_back(
        {key, cat("'", key, "' is [", pair[0], ", ", pair[1], "], expected the smaller value first")});
}

void check_augment(const AugmentRecipe& augment, KeyMistakes& mistakes) {
  check_pair("augment.erasing_area", augment.erasing_area, mistakes);
  check_pair("augment.erasing_ratio", augment.erasing_ratio, mistakes);
}

void check_schedule(const Recipe& recipe, KeyMistakes& mistakes) {
  check_milestones(recipe.schedule, mistakes);
  check_warmup(recipe.schedule, mistakes);
  const auto epochs = static_cast<double>(recipe.train.epochs);
  if (recipe.schedule.warmup_epochs > epochs && recipe.train.epochs > 0)
    mistakes.push_back(
        {"schedule.warmup_epochs", cat("'schedule.warmup_epochs' is ", recipe.schedule.warmup_epochs,
                                       ", more than the ", recipe.train.epochs, " of 'train.epochs'")});
}

void check_ema(const EmaRecipe& ema, KeyMistakes& mistakes) {
  if (ema.switch_epochs > 0 && ema.decay == 0.0)
    mistakes.push_back({"ema.switch_epochs", cat("'ema.switch_epochs' is ", ema.switch_epochs,
                                                 ", but 'ema.decay' is 0: there is no average to go on from; "
                                                 "set ema.decay, for instance to 0.999")});
}

void check_low_resolution(const TrainRecipe& train, KeyMistakes& mistakes) {
  if (train.low_resolution > 0 && train.low_resolution_epochs == 0)
    mistakes.push_back(
        {"train.low_resolution_epochs",
         cat("'train.low_resolution' is ", train.low_resolution,
             ", but 'train.low_resolution_epochs' is 0: no epoch would train at it; give the number of "
             "epochs, or leave both out")});
  if (train.low_resolution == 0 && train.low_resolution_epochs > 0)
    mistakes.push_back({"train.low_resolution",
                        cat("'train.low_resolution_epochs' is ", train.low_resolution_epochs,
                            ", but 'train.low_resolution' is 0; give the resolution, or leave both out")});
}

}  // namespace

std::vector<KeyMistake> find_mistakes(const Recipe& recipe) {
  KeyMistakes mistakes;
  Recipe copy = recipe;  // the table's members are mutable references
  for (const RecipeKey& key : recipe_keys())
    if (std::string text = key.check(copy); !text.empty()) mistakes.push_back({key.key, std::move(text)});
  check_name(recipe, mistakes);
  check_files(recipe.data, mistakes);
  check_synthetic(recipe.data, mistakes);
  check_normalization(recipe.data, mistakes);
  check_class_names(recipe.data, mistakes);
  check_init(recipe, mistakes);
  check_model(recipe.model, mistakes);
  check_optimizer(recipe.optimizer, mistakes);
  check_freezing(recipe.train, mistakes);
  check_machine(recipe, mistakes);
  check_schedule(recipe, mistakes);
  check_ema(recipe.ema, mistakes);
  check_low_resolution(recipe.train, mistakes);
  check_augment(recipe.augment, mistakes);
  return mistakes;
}

void check_recipe(const Recipe& recipe) {
  Mistakes mistakes;
  for (const KeyMistake& mistake : find_mistakes(recipe))
    mistakes.add(cat("recipe '", recipe.name, "'"), mistake.text);
  mistakes.raise();
}

}  // namespace tr
