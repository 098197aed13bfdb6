/// Plans as the program's verbs get them: compiled from a recipe, or saved as JSON.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "recipe_arguments.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/graph/plan_diff.h"
#include "renaissance/graph/plan_report.h"

namespace tr::cli {

/// `--device` and `--precision`, which win over the recipe and its overrides.
struct TargetOptions {
  std::string device, precision;

  std::vector<std::string> overrides() const;
};
void add_target_options(CLI::App& verb, TargetOptions& options);

/// For planning only: needs no device.
CompiledModel compile_recipe(const Recipe& recipe);
PlanTitle plan_title(const Recipe& recipe);

/// One side of a comparison.
struct PlanSource {
  std::string file;                    ///< a recipe or a saved plan; "-" is standard input
  std::vector<std::string> overrides;  ///< of a recipe
  std::string text;                    ///< of the file
  bool is_saved_plan = false;          ///< the file is called .json or begins with '{'
};
/// Reads the file. ValueError for overrides of a saved plan.
PlanSource read_plan_source(const std::string& file, std::vector<std::string> overrides);
/// The plan as JSON; `common` overrides come before a recipe's own.
PlanSide plan_side(const PlanSource& source, const std::vector<std::string>& common);

}  // namespace tr::cli
