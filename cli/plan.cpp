#include <iostream>
#include <memory>

#include "recipe_arguments.h"
#include "renaissance/core/error.h"
#include "renaissance/graph/plan_report.h"
#include "renaissance/train/trainer.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance plan recipes/imagenet_resnet50.yaml --device cuda --precision bf16
  renaissance plan recipe.yaml train.batch_size=64 --json

Needs neither a GPU nor, where the recipe states counts and sizes, the data.)";

struct PlanOptions {
  RecipeArguments recipe;
  std::string device, precision;
  bool json = false;
};

int plan(const PlanOptions& options) {
  RecipeArguments arguments = options.recipe;
  if (!options.device.empty()) arguments.overrides.push_back("device=" + options.device);
  if (!options.precision.empty()) arguments.overrides.push_back("precision=" + options.precision);
  const Recipe recipe = read_recipe(arguments);
  const CompiledModel model = compile(compile_request(recipe, data_info(recipe, false), true),
                                      std::make_shared<const Catalog>(make_catalog()));
  if (options.json)
    std::cout << plan_json(model) << '\n';
  else
    std::cout << plan_text(model);
  return EXIT_FINE;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("plan", "Show the memory plan of a recipe's training");
  const auto options = std::make_shared<PlanOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->add_option("--device", options->device, "cpu or cuda, instead of the recipe's")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->option_text("DEVICE");
  verb->add_option("--precision", options->precision, "fp32, fp16 or bf16, instead of the recipe's")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->option_text("PRECISION");
  verb->add_flag("--json", options->json, "print the plan as JSON");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = plan(*options); });
}

}  // namespace tr::cli
