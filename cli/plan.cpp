#include <algorithm>
#include <iostream>
#include <memory>

#include "output_file.h"
#include "plan_source.h"
#include "renaissance/core/error.h"
#include "renaissance/graph/plan_diff.h"
#include "renaissance/graph/plan_html.h"
#include "renaissance/graph/plan_report.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance plan recipes/imagenet_resnet50.yaml --device cuda --precision bf16
  renaissance plan recipe.yaml train.batch_size=64 --json > saved.json
  renaissance plan recipe.yaml --html plan.html
  renaissance plan --diff saved.json recipe.yaml --b precision=bf16

Needs neither a GPU nor, where the recipe states counts and sizes, the data.)";

struct PlanOptions {
  RecipeArguments recipe;
  TargetOptions target;
  std::vector<std::string> diff;  ///< two files, then overrides of both
  std::vector<std::string> a, b;  ///< overrides of one
  std::string html;
  bool json = false;
};

/// What applies to the recipes of both sides: every argument but the two files.
std::vector<std::string> common_overrides(const PlanOptions& options) {
  std::vector<std::string> overrides(options.diff.begin() + 2, options.diff.end());
  if (!options.recipe.file.empty()) overrides.push_back(options.recipe.file);
  overrides.insert(overrides.end(), options.recipe.overrides.begin(), options.recipe.overrides.end());
  for (const std::string& override : overrides)
    TR_CHECK(override.find('=') != std::string::npos, ValueError,
             cat("plan --diff: '", override,
                 "' is a third file; two can be compared, and overrides are key=value"));
  for (std::string& override : options.target.overrides()) overrides.push_back(std::move(override));
  return overrides;
}

/// The two plans that --diff names.
std::vector<PlanSide> diff_sides(const PlanOptions& options) {
  const std::vector<std::string> common = common_overrides(options);
  TR_CHECK(options.diff[0] != "-" || options.diff[1] != "-", ValueError,
           "plan --diff: standard input can be one of the two only");
  const PlanSource a = read_plan_source(options.diff[0], options.a),
                   b = read_plan_source(options.diff[1], options.b);
  TR_CHECK(common.empty() || !a.is_saved_plan || !b.is_saved_plan, ValueError,
           cat("plan --diff: '", common.front(), "' changes neither, as both plans are saved; leave it out"));
  return {plan_side(a, common), plan_side(b, common)};
}

int diff(const PlanOptions& options) {
  const std::vector<PlanSide> sides = diff_sides(options);
  if (!options.html.empty())
    write_output(options.html, plan_html(std::vector{sides[0].json, sides[1].json},
                                         std::vector{sides[0].title, sides[1].title}));
  if (options.json)
    std::cout << plan_diff_json(sides[0], sides[1]) << '\n';
  else if (options.html.empty())
    std::cout << plan_diff_text(sides[0], sides[1]);
  return EXIT_FINE;
}

int plan(const PlanOptions& options) {
  check_output("--html", options.html, options.json);
  if (!options.diff.empty()) return diff(options);
  TR_CHECK(!options.recipe.file.empty(), ValueError, "plan: RECIPE is missing; give a recipe, or --diff A B");
  RecipeArguments arguments = options.recipe;
  for (std::string& override : options.target.overrides()) arguments.overrides.push_back(std::move(override));
  const Recipe recipe = read_recipe(arguments);
  const CompiledModel model = compile_recipe(recipe);
  if (!options.html.empty())
    write_output(options.html,
                 plan_html(std::vector{plan_json(model, plan_title(recipe))}, std::vector{recipe.name}));
  if (options.json)
    std::cout << plan_json(model, plan_title(recipe)) << '\n';
  else if (options.html.empty())
    std::cout << plan_text(model, plan_title(recipe));
  return EXIT_FINE;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("plan", "Show the memory plan of a recipe's training, or compare two");
  const auto options = std::make_shared<PlanOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->get_option("RECIPE")->required(false);
  add_target_options(*verb, options->target);
  CLI::Option* diff = verb->add_option("--diff", options->diff,
                                       "compare two plans, each a recipe or what --json printed; overrides "
                                       "apply to the recipes of both")
                          ->expected(2, CLI::detail::expected_max_vector_size)
                          ->option_text("A B");
  const auto add_overrides = [&](const std::string& name, std::vector<std::string>& overrides) {
    verb->add_option(name, overrides, "of --diff: replaces a value of this recipe alone; can be repeated")
        ->allow_extra_args(false)
        ->needs(diff)
        ->option_text("key=value");
  };
  add_overrides("--a", options->a);
  add_overrides("--b", options->b);
  verb->add_flag("--json", options->json, "print the plan, or what differs, as JSON");
  verb->add_option(
          "--html", options->html,
          "write a page that shows the plan, or two side by side, to this file, or - for standard output; "
          "prints nothing else")
      ->option_text("FILE");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = plan(*options); });
}

}  // namespace tr::cli
