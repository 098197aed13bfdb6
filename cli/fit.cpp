#include "renaissance/train/fit.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "integer_range.h"
#include "plan_source.h"
#include "renaissance/core/byte_text.h"
#include "renaissance/core/error.h"
#include "renaissance/graph/outside_memory.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance fit recipes/imagenet_resnet50.yaml --memory 24GiB --device cuda --precision bf16
  renaissance fit recipe.yaml --memory 8GB --granularity 8 --json

Memory is that of one card, or on the CPU what all ranks may take together. Nothing runs: batches are planned, and the
answer is one that fits while the next multiple that can run does not. Needs neither a GPU nor, where the recipe states counts and
sizes, the data.)";

struct FitOptions {
  RecipeArguments recipe;
  TargetOptions target;
  std::string memory;
  int64_t granularity = 1;
  bool json = false;
};

std::string next_text(const BatchNeed& next) {
  if (!next.refusal.empty()) return cat(next.batch, " cannot run for its shape: ", next.refusal);
  return cat(next.batch, " does not fit: it ",
             next.exceeds_budget ? "cannot meet the recipe's memory.budget"
                                 : cat("needs ", human_and_exact(next.bytes())));
}

void print_text(const FitOptions& options, int64_t memory_bytes, const BatchFit& fit) {
  const auto line = [](const char* name, const std::string& value) {
    std::printf("%-22s %s\n", name, value.c_str());
  };
  const std::optional<DeviceOverhead> overhead = measured_overhead(fit.target);
  line("train.batch_size", cat(fit.fits.batch, fit.target.ranks > 1 ? " on each rank" : ""));
  line("needs", human_and_exact(fit.fits.bytes()));
  line("  arena", cat(human_and_exact(fit.fits.arena_bytes),
                      fit.fits.arenas > 1 ? cat(" on each of ", fit.fits.arenas, " ranks") : ""));
  line("  beside it", overhead
                          ? cat(human_and_exact(fit.fits.overhead_bytes), ", as measured on ", overhead->card)
                          : "unknown, not counted");
  line("left", human_and_exact(memory_bytes - fit.fits.bytes()));
  if (fit.next)
    line("next", next_text(*fit.next));
  else
    line("next", "none; the data have too few samples for a larger batch");
  if (fit.fits.pinned_host_bytes > 0) line("pinned host memory", human_and_exact(fit.fits.pinned_host_bytes));
  line("planned", cat(fit.plans, " batches, in multiples of ", options.granularity));
}

nlohmann::ordered_json json_of(const FitOptions& options, int64_t memory_bytes, const BatchFit& fit) {
  using Json = nlohmann::ordered_json;
  const bool is_known = measured_overhead(fit.target).has_value();
  const bool is_next_known = fit.next && fit.next->is_planned();
  const bool is_next_refused = fit.next && !fit.next->refusal.empty();
  return {{"batch_size", fit.fits.batch},
          {"memory_bytes", memory_bytes},
          {"needed_bytes", fit.fits.bytes()},
          {"left_bytes", memory_bytes - fit.fits.bytes()},
          {"arena_bytes", fit.fits.arena_bytes},
          {"arenas", fit.fits.arenas},
          {"overhead_bytes", is_known ? Json(fit.fits.overhead_bytes) : Json()},
          {"pinned_host_bytes", fit.fits.pinned_host_bytes},
          {"granularity", options.granularity},
          {"next_batch_size", fit.next ? Json(fit.next->batch) : Json()},
          {"next_needed_bytes", is_next_known ? Json(fit.next->bytes()) : Json()},
          {"next_refusal", is_next_refused ? Json(fit.next->refusal) : Json()},
          {"plans", fit.plans}};
}

int run_fit(const FitOptions& options) {
  const int64_t memory_bytes = parse_bytes(options.memory, "--memory");
  RecipeArguments arguments = options.recipe;
  for (std::string& override : options.target.overrides()) arguments.overrides.push_back(std::move(override));
  const Recipe recipe = read_recipe(arguments);
  const BatchFit fit = fit_batch(recipe, data_info(recipe, false), {memory_bytes, options.granularity});
  if (options.json)
    std::cout << json_of(options, memory_bytes, fit).dump() << '\n';
  else
    print_text(options, memory_bytes, fit);
  return EXIT_FINE;
}

}  // namespace

void add_fit(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("fit", "Find the largest batch that fits into given memory");
  const auto options = std::make_shared<FitOptions>();
  add_recipe_arguments(*verb, options->recipe);
  verb->add_option("--memory", options->memory, "24GiB, 24GB or a number of bytes")
      ->required()
      ->option_text("SIZE");
  add_target_options(*verb, options->target);
  verb->add_option("--granularity", options->granularity, "the batch is a multiple of it (1)")
      ->transform(integer_range(1))
      ->option_text("N");
  verb->add_flag("--json", options->json,
                 "print an object: batch_size, memory_bytes, needed_bytes, left_bytes and more");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = run_fit(*options); });
}

}  // namespace tr::cli
