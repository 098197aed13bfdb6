#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "recipe_arguments.h"
#include "renaissance/train/trainer.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance eval runs/first/recipe.yaml --weights runs/first/weights.safetensors
  renaissance eval runs/first/recipe.yaml --weights runs/first/checkpoints/best.safetensors
  renaissance eval recipe.yaml --weights weights.safetensors train.val_batch_size=250 --json)";

struct EvalOptions {
  RecipeArguments recipe;
  std::string weights;
  bool averaged = false, json = false;
};

void print(const Metrics& metrics, bool json) {
  if (json) {
    const nlohmann::ordered_json line{
        {"loss", metrics.loss}, {"top1", metrics.top1}, {"top5", metrics.top5}, {"samples", metrics.samples}};
    std::cout << line.dump() << '\n';
    return;
  }
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "loss     %.6f\ntop-1    %.4f%%\ntop-5    %.4f%%\nsamples  %lld\n",
                metrics.loss, 100.0 * metrics.top1, 100.0 * metrics.top5,
                static_cast<long long>(metrics.samples));
  std::cout << text.data();
}

int evaluate(const EvalOptions& options) {
  Recipe recipe = read_recipe(options.recipe);
  recipe.init.clear();  // the weights are given
  recipe.init_except.clear();
  const StateDict state = read_weights(options.weights, options.averaged);
  Trainer trainer(recipe);
  trainer.load_state_dict(state);
  print(trainer.evaluate(), options.json);
  return EXIT_FINE;
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("eval", "Evaluate weights on a recipe's validation data");
  const auto options = std::make_shared<EvalOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->add_option("--weights", options->weights,
                   "checkpoint, or safetensors file with the model's state_dict")
      ->required()
      ->option_text("FILE (required)");
  verb->add_flag("--ema", options->averaged, "of a checkpoint, the averaged weights");
  verb->add_flag("--json", options->json, "print one line of JSON: loss, top1, top5, samples");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = evaluate(*options); });
}

}  // namespace tr::cli
