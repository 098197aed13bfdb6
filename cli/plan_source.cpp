#include "plan_source.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "renaissance/core/error.h"
#include "renaissance/train/trainer.h"

namespace tr::cli {

namespace {

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  std::ifstream file(path, std::ios::binary);
  TR_CHECK(file.is_open() && !std::filesystem::is_directory(path), IoError,
           cat(path, ": cannot be read; give a recipe or a saved plan"));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool looks_like_json(const std::string& path, const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return path.ends_with(".json") || (first != std::string::npos && text[first] == '{');
}

}  // namespace

std::vector<std::string> TargetOptions::overrides() const {
  std::vector<std::string> list;
  if (!device.empty()) list.push_back("device=" + device);
  if (!precision.empty()) list.push_back("precision=" + precision);
  return list;
}

void add_target_options(CLI::App& verb, TargetOptions& options) {
  verb.add_option("--device", options.device, "cpu or cuda, instead of the recipe's")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->option_text("DEVICE");
  verb.add_option("--precision", options.precision, "fp32, fp16 or bf16, instead of the recipe's")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->option_text("PRECISION");
}

CompiledModel compile_recipe(const Recipe& recipe) {
  return compile(compile_request(recipe, data_info(recipe, false), true),
                 std::make_shared<const Catalog>(make_catalog()));
}

PlanTitle plan_title(const Recipe& recipe) { return {recipe.model.name, recipe.name}; }

PlanSource read_plan_source(const std::string& file, std::vector<std::string> overrides) {
  PlanSource source{file, std::move(overrides), read_text(file), false};
  source.is_saved_plan = looks_like_json(file, source.text);
  TR_CHECK(!source.is_saved_plan || source.overrides.empty(), ValueError,
           cat("plan '", file, "': is saved, so '", source.overrides.front(),
               "' cannot change it; give the recipe it was made from"));
  return source;
}

PlanSide plan_side(const PlanSource& source, const std::vector<std::string>& common) {
  if (source.is_saved_plan) return {source.file, source.text};
  std::vector<std::string> overrides = common;
  overrides.insert(overrides.end(), source.overrides.begin(), source.overrides.end());
  const std::string name = source.file == "-" ? "standard input" : source.file;
  const Recipe recipe = parse_recipe(source.text, name, overrides);
  std::string title = name;
  for (const std::string& override : overrides) title += ' ' + override;
  return {std::move(title), plan_json(compile_recipe(recipe), plan_title(recipe))};
}

}  // namespace tr::cli
