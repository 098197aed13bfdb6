#include "train/resume.h"

#include <algorithm>

#include "renaissance/core/error.h"
#include "renaissance/train/trainer.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

std::string value_text(const RecipeKey& key, Recipe recipe) {
  const YamlTree value = key.write(recipe);
  return value.kind == YamlTree::Kind::NONE ? "nothing" : write_yaml_inline(value);
}

/// What `text` looks like in an error: networks are long.
std::string shortened(const std::string& text) {
  constexpr size_t MOST = 60;
  return text.size() <= MOST ? text : text.substr(0, MOST) + "…";
}

std::string data_text(const CheckpointInfo& data) {
  return cat(data.train_samples, " + ", data.val_samples, " samples of ", data.height, "x", data.width, "x",
             data.channels, " in ", data.classes, " classes");
}

CheckpointInfo as_checkpoint(const DataInfo& data) {
  CheckpointInfo info;
  info.train_samples = data.train_samples;
  info.val_samples = data.val_samples;
  info.channels = data.channels;
  info.height = data.height;
  info.width = data.width;
  info.classes = data.classes;
  return info;
}

/// Another number of epochs stretches some schedules: then the steps done had other learning rates.
void check_epochs(const CheckpointInfo& checkpoint, const Recipe& saved, const Recipe& now,
                  const DataInfo& data, const std::string& source) {
  const TrainingProgress& progress = checkpoint.progress;
  const int64_t begun = progress.epochs + (progress.epoch_steps > 0 ? 1 : 0);
  TR_CHECK(now.train.epochs >= begun, RecipeError,
           cat(source, ": epoch ", begun, " was reached, train.epochs is ", now.train.epochs,
               "; give at least ", begun));
  if (saved.train.epochs == now.train.epochs) return;
  const ScheduleSpec before = compile_request(saved, data, true).schedule,
                     after = compile_request(now, data, true).schedule;
  // A skipped step did not advance the schedule.
  for (int64_t step = 0; step < checkpoint.steps - checkpoint.skipped_steps; ++step)
    TR_CHECK(before.at(step) == after.at(step), RecipeError,
             cat(source, ": train.epochs was ", saved.train.epochs, " and is ", now.train.epochs,
                 ", with which the learning rate of step ", step + 1, " would have been ", after.at(step),
                 " instead of ", before.at(step), "; keep train.epochs, or begin anew"));
}

}  // namespace

std::vector<std::string> free_recipe_keys() {
  return {
      // where things are
      "name", "run_dir", "data.path", "data.train_images", "data.train_labels", "data.val_images",
      "data.val_labels",
      // what it started from, long ago
      "init", "init_except",
      // what predictions are called
      "data.class_names",
      // how fast, and in how many bytes
      "data.workers", "threads", "memory.layout", "memory.budget", "memory.recompute", "train.val_batch_size",
      // what is reported, and when it stops
      "train.epochs", "train.log_interval", "train.max_skipped_steps",
      // what is written
      "checkpoint.every_epochs", "checkpoint.every_steps", "checkpoint.keep_last", "checkpoint.keep_best"};
}

std::vector<std::string> state_differences(const Recipe& saved, const Recipe& now) {
  const std::vector<std::string> free = free_recipe_keys();
  std::vector<std::string> differences;
  for (const RecipeKey& key : recipe_keys()) {
    if (std::find(free.begin(), free.end(), key.key) != free.end()) continue;
    const std::string before = value_text(key, saved), after = value_text(key, now);
    if (before != after)
      differences.push_back(
          cat(key.key, ": ", shortened(before), " in the checkpoint, ", shortened(after), " now"));
  }
  return differences;
}

void check_can_resume(const CheckpointInfo& checkpoint, const Recipe& now, const DataInfo& data,
                      const std::string& source) {
  const Recipe saved = parse_recipe(checkpoint.recipe, cat(source, ", recipe"));
  const std::vector<std::string> differences = state_differences(saved, now);
  if (!differences.empty()) {
    std::string text =
        cat(source, ": the recipe is another training's; begin anew, or give the checkpoint's:");
    for (const std::string& line : differences) text += "\n  " + line;
    throw Error(ErrorKind::RecipeError, text);
  }
  const std::string before = data_text(checkpoint), after = data_text(as_checkpoint(data));
  TR_CHECK(before == after, DataError,
           cat(source, ": trained on ", before, ", the data are ", after, "; give those it was trained on"));
  check_epochs(checkpoint, saved, now, data, source);
}

}  // namespace tr
