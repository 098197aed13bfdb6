#include <algorithm>

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

void check_model(const ModelRecipe& model, KeyMistakes& mistakes) {
  const bool has_layers = model.layers != BluePrint{};
  if (model.name.empty() && !has_layers)
    mistakes.push_back({"model", "model is missing; give a name such as 'model: resnet18', or model.layers"});
  if (!model.name.empty() && has_layers)
    mistakes.push_back(
        {"model.layers", cat("model has both a name ('", model.name, "') and layers; leave one out")});
  const std::vector<std::string> known = model_names();
  if (model.name.empty() || std::find(known.begin(), known.end(), model.name) != known.end()) return;
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

void check_schedule(const Recipe& recipe, KeyMistakes& mistakes) {
  const auto epochs = static_cast<double>(recipe.train.epochs);
  if (recipe.schedule.warmup_epochs > epochs && recipe.train.epochs > 0)
    mistakes.push_back(
        {"schedule.warmup_epochs", cat("'schedule.warmup_epochs' is ", recipe.schedule.warmup_epochs,
                                       ", more than the ", recipe.train.epochs, " of 'train.epochs'")});
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
  check_model(recipe.model, mistakes);
  check_optimizer(recipe.optimizer, mistakes);
  check_machine(recipe, mistakes);
  check_schedule(recipe, mistakes);
  return mistakes;
}

void check_recipe(const Recipe& recipe) {
  Mistakes mistakes;
  for (const KeyMistake& mistake : find_mistakes(recipe))
    mistakes.add(cat("recipe '", recipe.name, "'"), mistake.text);
  mistakes.raise();
}

}  // namespace tr
