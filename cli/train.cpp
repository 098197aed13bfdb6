#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "progress.h"
#include "recipe_arguments.h"
#include "renaissance/core/error.h"
#include "renaissance/graph/plan_report.h"
#include "renaissance/train/tensorboard.h"
#include "renaissance/train/trainer.h"
#include "run_folder.h"
#include "stop_signals.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance train recipes/fashion_mnist_cnn.yaml
  renaissance train recipe.yaml train.epochs=3 optimizer.learning_rate=0.05 --run-dir runs/short
  renaissance train recipe.yaml data=synthetic --json --quiet
  renaissance train runs/short/recipe.yaml --resume
  renaissance train runs/short/recipe.yaml --resume runs/short/checkpoints/epoch-0002.safetensors

The run folder gets recipe.yaml (as resolved), plan.txt, metrics.jsonl, TensorBoard's event file and
weights.safetensors, and a folder of checkpoints.
Ctrl-C finishes the step, writes a checkpoint and exits with 130; a second one ends at once.)";

struct TrainOptions {
  RecipeArguments recipe;
  std::string run_dir;
  bool resumes = false;
  std::string checkpoint;  ///< to resume from; empty: the newest of the run folder
  bool overwrite = false, json = false, quiet = false;
};

class TrainingObserver : public Observer {
 public:
  TrainingObserver(MetricsFile& metrics, TensorBoardFile& events, ProgressPrinter& printer,
                   const StopSignals& signals, int64_t epochs)
      : metrics_(metrics), events_(events), printer_(printer), signals_(signals), epochs_(epochs) {}

  void on_progress(const Progress& progress) override {
    events_.append(progress);
    printer_.step(progress);
  }
  void on_epoch(const EpochReport& report) override {
    metrics_.append(report);
    events_.append(report);
    if (!report.interrupted) printer_.epoch(report, epochs_);
  }
  bool should_stop() override { return signals_.asked_to_stop(); }

 private:
  MetricsFile& metrics_;
  TensorBoardFile& events_;
  ProgressPrinter& printer_;
  const StopSignals& signals_;
  int64_t epochs_;
};

std::filesystem::path run_dir_of(const Recipe& recipe, const std::string& given) {
  if (!given.empty()) return given;
  return recipe.run_dir.empty() ? std::filesystem::path("runs") / recipe.name : recipe.run_dir;
}

std::string result_json(const TrainResult& result, const RunFolder& folder) {
  using Json = nlohmann::ordered_json;
  // A run that was stopped in its first epoch has validated nothing.
  const auto validated = [&](double value) { return result.val.samples > 0 ? Json(value) : Json(); };
  // A path is bytes; JSON is UTF-8.
  Json json{{"val_top1", validated(result.val.top1)}, {"val_top5", validated(result.val.top5)},
            {"val_loss", validated(result.val.loss)}, {"seconds", result.seconds},
            {"images_per_s", result.images_per_s},    {"epochs", result.epochs},
            {"run_dir", folder.path().string()},      {"interrupted", result.interrupted}};
  if (result.val_ema) {
    json["val_ema_top1"] = result.val_ema->top1;
    json["val_ema_top5"] = result.val_ema->top5;
    json["val_ema_loss"] = result.val_ema->loss;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string result_text(const TrainResult& result, const RunFolder& folder) {
  std::array<char, 64> metrics{};
  if (result.val.samples > 0)
    std::snprintf(metrics.data(), metrics.size(), "val top-1 %.2f%%  loss %.4f  ", 100.0 * result.val.top1,
                  result.val.loss);
  return cat(metrics.data(), "in ", duration_text(result.seconds), "  saved in ", folder.path().string());
}

/// Whether the run that the folder holds goes on, as opposed to one that begins there.
bool continues_in(const std::filesystem::path& run_dir, const TrainOptions& options) {
  if (!options.resumes || options.checkpoint.empty()) return options.resumes;
  std::error_code code;
  return std::filesystem::equivalent(std::filesystem::absolute(options.checkpoint).parent_path(),
                                     run_dir / "checkpoints", code);
}

/// The one that --resume names.
std::optional<NewestCheckpoint> given_checkpoint(const TrainOptions& options) {
  if (options.checkpoint.empty()) return std::nullopt;
  NewestCheckpoint given{options.checkpoint, read_safetensors(options.checkpoint), {}};
  checkpoint_info(given.state, options.checkpoint);  // refuses what is none
  return given;
}

/// The newest of the folder.
std::optional<NewestCheckpoint> find_checkpoint(const RunFolder& folder) {
  std::optional<NewestCheckpoint> newest = newest_checkpoint(folder.checkpoints());
  if (!newest.has_value()) folder.check_begins();
  for (const std::string& what : newest ? newest->passed_over : std::vector<std::string>())
    std::cerr << "renaissance: passed over " << what << std::endl;
  return newest;
}

std::string resume_text(const std::filesystem::path& checkpoint, const TrainingProgress& progress) {
  std::string text = cat("resumed from ", checkpoint.string(), ": ", progress.epochs,
                         progress.epochs == 1 ? " epoch done" : " epochs done");
  if (progress.epoch_steps > 0) text += cat(", and ", progress.epoch_steps, " steps of the next");
  return text;
}

/// What a resumed training says first.
std::string start_at(Trainer& trainer, const std::optional<NewestCheckpoint>& from, const RunFolder& folder) {
  if (!from.has_value())
    return cat("no checkpoint in ", folder.checkpoints().path().string(), "; begins at the beginning");
  trainer.resume(from->state, from->file.string());
  return resume_text(from->file, trainer.progress());
}

/// Weights that come from a checkpoint need not be read from where they started.
Recipe without_init(Recipe recipe) {
  recipe.init.clear();
  recipe.init_except.clear();
  return recipe;
}

int train(const TrainOptions& options) {
  Recipe recipe = read_recipe(options.recipe);
  recipe.run_dir = run_dir_of(recipe, options.run_dir);
  const bool continues = continues_in(recipe.run_dir, options);
  TR_CHECK(!continues || !options.overwrite, ValueError,
           "--overwrite would remove what --resume goes on from; give one of the two");
  std::optional<NewestCheckpoint> from = given_checkpoint(options);
  RunFolder folder(recipe.run_dir, options.overwrite || continues);
  folder.lock();
  if (options.resumes && !from) from = find_checkpoint(folder);
  Trainer trainer(from ? without_init(recipe) : recipe);
  const std::string start_text = options.resumes ? start_at(trainer, from, folder) : "";
  const bool goes_on = continues && from.has_value();
  from.reset();  // as large as the training's state

  // Everything is valid from here on.
  if (!goes_on) folder.create();
  trainer.keep_checkpoints(folder.checkpoints());
  folder.write("recipe.yaml", recipe_to_yaml(recipe));
  folder.write("plan.txt", plan_text(trainer.model(), {recipe.model.name, recipe.name}));
  const StopSignals signals;
  MetricsFile metrics(folder.metrics(), goes_on ? trainer.progress().epochs : 0);
  TensorBoardFile events(folder.path());
  std::FILE* out = options.json ? stderr : stdout;
  ProgressPrinter printer(out, progress_style(out, options.quiet));
  TrainingObserver observer(metrics, events, printer, signals, recipe.train.epochs);
  if (!start_text.empty()) printer.line(start_text);
  const TrainResult result = trainer.run(observer);
  write_safetensors(folder.weights(), trainer.state_dict());
  if (recipe.ema.decay > 0.0) write_safetensors(folder.averaged_weights(), trainer.ema_state_dict());

  printer.line(result_text(result, folder));
  if (options.json) std::cout << result_json(result, folder) << '\n';
  if (!result.interrupted) return EXIT_FINE;
  std::cerr << "renaissance: stopped by a signal after " << result.epochs << " of " << recipe.train.epochs
            << " epochs; saved in " << folder.path().string() << ", from where --resume goes on" << std::endl;
  return EXIT_STOPPED;
}

/// What follows --resume may be the first of the overrides instead of a file.
void separate_resume(TrainOptions& options) {
  if (options.checkpoint.find('=') == std::string::npos || std::filesystem::exists(options.checkpoint))
    return;
  options.recipe.overrides.insert(options.recipe.overrides.begin(), options.checkpoint);
  options.checkpoint.clear();
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("train", "Train a recipe's model");
  const auto options = std::make_shared<TrainOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->add_option("--run-dir", options->run_dir,
                   "folder for what the run leaves; default: run_dir of the recipe, or runs/NAME")
      ->option_text("DIR");
  const CLI::Option* resume =
      verb->add_option("--resume", options->checkpoint,
                       "go on from a checkpoint: of FILE, or the newest whole one of the run folder")
          ->expected(0, 1)
          ->option_text("[FILE]");
  verb->add_flag("--overwrite", options->overwrite, "replace the run that the folder holds");
  verb->add_flag("--json", options->json,
                 "print the result as one line of JSON; progress goes to standard error");
  verb->add_flag("--quiet", options->quiet, "no progress");
  verb->footer(EXAMPLES);
  verb->callback([options, resume, &exit_code] {
    options->resumes = resume->count() > 0;
    separate_resume(*options);
    exit_code = train(*options);
  });
}

}  // namespace tr::cli
