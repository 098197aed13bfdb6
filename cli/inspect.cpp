#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "renaissance/core/byte_text.h"
#include "renaissance/core/error.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"
#include "verbs.h"

namespace tr::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* EXAMPLES = R"(Examples:
  renaissance inspect runs/first/checkpoints/best.safetensors
  renaissance inspect weights.safetensors --tensors
  renaissance inspect weights.safetensors --json)";

struct InspectOptions {
  std::string file;
  bool tensors = false, json = false;
};

int64_t elements(const StateTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

bool is_statistic(std::string_view name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_var") ||
         name.ends_with(".num_batches_tracked");
}

/// Elements that are trained: of a checkpoint, those of the weights.
int64_t parameters(const StateDict& file) {
  const bool checkpoint = is_checkpoint(file);
  int64_t count = 0;
  for (const auto& [name, tensor] : file.tensors)
    if (!is_statistic(name) && (!checkpoint || name.starts_with("model."))) count += elements(tensor);
  return count;
}

std::map<std::string, int64_t> dtype_counts(const StateDict& file) {
  std::map<std::string, int64_t> counts;
  for (const auto& [name, tensor] : file.tensors) ++counts[tensor.dtype];
  return counts;
}

std::string shape_text(const StateTensor& tensor) {
  std::string text = "[";
  for (const int64_t dim : tensor.shape) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

/// What a checkpoint's recipe says that people look for.
struct RecipeSummary {
  std::string name, model, precision;
  int64_t epochs = 0;
};

RecipeSummary summary_of(const CheckpointInfo& info, const std::string& source) {
  const Recipe recipe = parse_recipe(info.recipe, source + ", recipe");
  return {recipe.name, recipe.model.name, std::string(precision_name(recipe.precision)), recipe.train.epochs};
}

Json metrics_json(const Metrics& metrics) {
  if (metrics.samples == 0) return {};
  return {
      {"loss", metrics.loss}, {"top1", metrics.top1}, {"top5", metrics.top5}, {"samples", metrics.samples}};
}

Json best_json(const TrainingProgress& progress) {
  if (progress.best_epoch == 0) return {};
  return {{"top1", progress.best_top1}, {"epoch", progress.best_epoch}};
}

void add_checkpoint(Json& line, const CheckpointInfo& info, const std::string& source) {
  const RecipeSummary recipe = summary_of(info, source);
  line["recipe"] = recipe.name;
  line["model"] = recipe.model.empty() ? Json() : Json(recipe.model);
  line["precision"] = recipe.precision;
  line["ranks"] = info.ranks;
  line["epochs"] = info.progress.epochs;
  line["train_epochs"] = recipe.epochs;
  line["epoch_steps"] = info.progress.epoch_steps;
  line["steps"] = info.steps;
  line["skipped_steps"] = info.skipped_steps;
  line["val"] = metrics_json(info.progress.val);
  line["best"] = best_json(info.progress);
  line["library_version"] = info.library_version;
}

Json tensor_list(const StateDict& file) {
  Json list = Json::array();
  for (const auto& [name, tensor] : file.tensors)
    list.push_back(
        {{"name", name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.data.size()}});
  return list;
}

std::string json_of(const StateDict& file, const CheckpointInfo* checkpoint, const InspectOptions& options,
                    int64_t bytes) {
  Json line{{"kind", checkpoint == nullptr ? "weights" : "checkpoint"},
            {"bytes", bytes},
            {"parameters", parameters(file)},
            {"dtypes", dtype_counts(file)}};
  if (checkpoint != nullptr)
    add_checkpoint(line, *checkpoint, options.file);
  else
    line["metadata"] = file.metadata;
  line["tensors"] = tensor_list(file);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void row(const char* name, const std::string& value) {
  std::cout << name << std::string(16 - std::string_view(name).size(), ' ') << value << '\n';
}

std::string percent(double fraction) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f%%", 100.0 * fraction);
  return text.data();
}

void print_checkpoint(const CheckpointInfo& info, const std::string& source) {
  const TrainingProgress& progress = info.progress;
  const RecipeSummary recipe = summary_of(info, source);
  row("recipe", recipe.name);
  row("model", recipe.model.empty() ? "layers of the recipe" : recipe.model);
  row("precision", recipe.precision);
  row("ranks", std::to_string(info.ranks));
  row("epochs",
      cat(progress.epochs, " of ", recipe.epochs,
          progress.epoch_steps > 0 ? cat(", and ", progress.epoch_steps, " steps of the next") : ""));
  row("steps", cat(info.steps, info.skipped_steps > 0 ? cat(", ", info.skipped_steps, " skipped") : ""));
  if (progress.val.samples > 0)
    row("validation", cat("top-1 ", percent(progress.val.top1), "  top-5 ", percent(progress.val.top5),
                          "  loss ", progress.val.loss));
  if (progress.best_epoch > 0)
    row("best", cat("top-1 ", percent(progress.best_top1), " after epoch ", progress.best_epoch));
  row("written by", "renaissance " + info.library_version);
}

void print(const StateDict& file, const CheckpointInfo* checkpoint, const InspectOptions& options,
           int64_t bytes) {
  row("kind", checkpoint == nullptr ? "weights" : "checkpoint");
  if (checkpoint != nullptr) print_checkpoint(*checkpoint, options.file);
  std::string dtypes;
  for (const auto& [dtype, count] : dtype_counts(file))
    dtypes += cat(dtypes.empty() ? "" : ", ", count, ' ', dtype);
  row("tensors", cat(file.tensors.size(), " (", dtypes, ")"));
  row("parameters", std::to_string(parameters(file)));
  row("bytes", human_and_exact(bytes));
  if (!options.tensors) return;
  size_t widest = 0;
  for (const auto& [name, tensor] : file.tensors) widest = std::max(widest, name.size());
  std::cout << '\n';
  for (const auto& [name, tensor] : file.tensors)
    std::cout << name << std::string(widest + 2 - name.size(), ' ') << tensor.dtype << "  "
              << shape_text(tensor) << '\n';
}

int inspect(const InspectOptions& options) {
  const StateDict file = read_safetensors(options.file);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(options.file));
  std::unique_ptr<CheckpointInfo> checkpoint;
  if (is_checkpoint(file)) checkpoint = std::make_unique<CheckpointInfo>(checkpoint_info(file, options.file));
  if (options.json)
    std::cout << json_of(file, checkpoint.get(), options, bytes) << '\n';
  else
    print(file, checkpoint.get(), options, bytes);
  return EXIT_FINE;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("inspect", "Say what a checkpoint or weights file holds");
  const auto options = std::make_shared<InspectOptions>();
  verb->add_option("FILE", options->file, "safetensors file")->required()->option_text(" ");
  verb->add_flag("--tensors", options->tensors, "list the tensors too");
  verb->add_flag("--json", options->json, "print one line of JSON");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = inspect(*options); });
}

}  // namespace tr::cli
