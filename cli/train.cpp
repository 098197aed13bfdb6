#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "progress.h"
#include "recipe_arguments.h"
#include "renaissance/core/error.h"
#include "renaissance/graph/plan_report.h"
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

The run folder gets recipe.yaml (as resolved), plan.txt, metrics.jsonl and weights.safetensors.
Ctrl-C finishes the step, saves the weights and exits with 130; a second one ends at once.)";

struct TrainOptions {
  RecipeArguments recipe;
  std::string run_dir;
  bool overwrite = false, json = false, quiet = false;
};

class TrainingObserver : public Observer {
 public:
  TrainingObserver(MetricsFile& metrics, ProgressPrinter& printer, const StopSignals& signals, int64_t epochs)
      : metrics_(metrics), printer_(printer), signals_(signals), epochs_(epochs) {}

  void on_progress(const Progress& progress) override { printer_.step(progress); }
  void on_epoch(const EpochReport& report) override {
    metrics_.append(report);
    if (!report.interrupted) printer_.epoch(report, epochs_);
  }
  bool should_stop() override { return signals_.asked_to_stop(); }

 private:
  MetricsFile& metrics_;
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
  return Json{{"val_top1", validated(result.val.top1)}, {"val_top5", validated(result.val.top5)},
              {"val_loss", validated(result.val.loss)}, {"seconds", result.seconds},
              {"images_per_s", result.images_per_s},    {"epochs", result.epochs},
              {"run_dir", folder.path().string()},      {"interrupted", result.interrupted}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string result_text(const TrainResult& result, const RunFolder& folder) {
  std::array<char, 64> metrics{};
  if (result.val.samples > 0)
    std::snprintf(metrics.data(), metrics.size(), "val top-1 %.2f%%  loss %.4f  ", 100.0 * result.val.top1,
                  result.val.loss);
  return cat(metrics.data(), "in ", duration_text(result.seconds), "  saved in ", folder.path().string());
}

int train(const TrainOptions& options) {
  Recipe recipe = read_recipe(options.recipe);
  recipe.run_dir = run_dir_of(recipe, options.run_dir);
  const RunFolder folder(recipe.run_dir, options.overwrite);
  Trainer trainer(recipe);

  // Everything is valid from here on.
  folder.create();
  folder.write("recipe.yaml", recipe_to_yaml(recipe));
  folder.write("plan.txt", plan_text(trainer.model(), {recipe.model.name, recipe.name}));
  const StopSignals signals;
  MetricsFile metrics(folder.metrics());
  std::FILE* out = options.json ? stderr : stdout;
  ProgressPrinter printer(out, progress_style(out, options.quiet));
  TrainingObserver observer(metrics, printer, signals, recipe.train.epochs);
  const TrainResult result = trainer.run(observer);
  write_safetensors(folder.weights(), trainer.state_dict());

  printer.line(result_text(result, folder));
  if (options.json) std::cout << result_json(result, folder) << '\n';
  if (!result.interrupted) return EXIT_FINE;
  std::cerr << "renaissance: stopped by a signal after " << result.epochs << " of " << recipe.train.epochs
            << " epochs; weights saved in " << folder.path().string() << std::endl;
  return EXIT_STOPPED;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("train", "Train a recipe's model");
  const auto options = std::make_shared<TrainOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->add_option("--run-dir", options->run_dir,
                   "folder for what the run leaves; default: run_dir of the recipe, or runs/NAME")
      ->option_text("DIR");
  verb->add_flag("--overwrite", options->overwrite, "replace the run that the folder holds");
  verb->add_flag("--json", options->json,
                 "print the result as one line of JSON; progress goes to standard error");
  verb->add_flag("--quiet", options->quiet, "no progress");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = train(*options); });
}

}  // namespace tr::cli
