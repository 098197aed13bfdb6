#include "renaissance/models.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "renaissance/graph/arch_plan.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance models
  renaissance models --json

Parameters are counted for the classes that each network was designed for: 1000 for ImageNet, 10 for the small
ones. Use one in a recipe by its name, 'model: resnet50'.)";

int64_t count_parameters(const std::string& name, const ModelInput& input, const Catalog& catalog) {
  const ArchPlan arch = lower(make_model(name, input.classes), catalog);
  // Two samples, because batch norm does not train on one value.
  const Shape batch(2, input.height, input.width, input.channels);
  const std::vector<Shape> shapes = storage_shapes(arch, infer_shapes(arch, batch));
  int64_t sum = 0;
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    const OpQuery query = layer_query(arch, i, shapes, DType::FP32, default_target(BackendKind::CPU));
    for (const ParamSpec& param : arch.layers[i].entry->spec->params(query)) sum += param.shape.numel();
  }
  return sum;
}

void print_text(const Catalog& catalog) {
  std::printf("%-10s  %11s  %7s  %s\n", "name", "parameters", "classes", "summary");
  for (const std::string& name : model_names()) {
    const ModelInput input = model_input(name);
    std::printf("%-10s  %11lld  %7lld  %s\n", name.c_str(),
                static_cast<long long>(count_parameters(name, input, catalog)),
                static_cast<long long>(input.classes), std::string(model_summary(name)).c_str());
  }
}

void print_json(const Catalog& catalog) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& name : model_names()) {
    const ModelInput input = model_input(name);
    list.push_back({{"name", name},
                    {"parameters", count_parameters(name, input, catalog)},
                    {"classes", input.classes},
                    {"height", input.height},
                    {"width", input.width},
                    {"channels", input.channels},
                    {"summary", model_summary(name)}});
  }
  std::cout << list.dump() << '\n';
}

}  // namespace

void add_models(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("models", "List the ready networks");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json,
                 "print a list of objects: name, parameters, classes, height, width, channels, summary");
  verb->footer(EXAMPLES);
  verb->callback([json, &exit_code] {
    const Catalog catalog = make_catalog();
    *json ? print_json(catalog) : print_text(catalog);
    exit_code = EXIT_FINE;
  });
}

}  // namespace tr::cli
