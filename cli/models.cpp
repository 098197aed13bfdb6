#include "renaissance/models.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "renaissance/core/byte_text.h"
#include "renaissance/graph/compiler.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr int64_t PLANNED_BATCH = 32;

constexpr const char* EXAMPLES = R"(Examples:
  renaissance models
  renaissance models --json

Parameters and multiply-adds (of convolutions and fully connected layers, one image forward) are counted for the
images and classes that each network was designed for: 1000 classes of ImageNet, 10 for the small ones. Planned
is the memory of a training on a CUDA card in FP32 with momentum, 32 images a step. Use a network in a recipe by
its name, 'model: resnet50'.)";

struct ModelFacts {
  std::string name;
  ModelInput input;
  int64_t parameters = 0;
  int64_t multiply_adds = 0;  ///< of one image
  int64_t planned_bytes = 0;
};

/// The same on every machine: a plan for CUDA asks rules, no library.
CompiledModel plan_training(const std::string& name, const ModelInput& input,
                            std::shared_ptr<const Catalog> catalog) {
  CompileRequest request;
  request.model = make_model(name, input.classes);
  request.inputs.fill(Shape(PLANNED_BATCH, input.height, input.width, input.channels));
  request.classes = input.classes;
  request.config.optimizer = OptimizerKind::MOMENTUM;
  request.target = default_target(BackendKind::CUDA);
  request.plan_only = true;
  return compile(request, std::move(catalog));
}

ModelFacts facts_of(const std::string& name, const std::shared_ptr<const Catalog>& catalog) {
  const ModelInput input = model_input(name);
  const CompiledModel model = plan_training(name, input, catalog);
  ModelFacts facts{name, input, model.num_parameters(), 0, model.plan(Variant::TRAIN_BASE).total_bytes()};
  for (const GraphNode& node : model.graph.part(GraphId::INFERENCE)) {
    if (node.kind != NodeKind::COMPUTE) continue;
    const OpSpec& spec = *model.ops[static_cast<size_t>(node.op)].entry->spec;
    facts.multiply_adds += spec.flops(model.query(node.op, Variant::VAL_BASE), node.pass) / 2 / PLANNED_BATCH;
  }
  return facts;
}

void print_text(const std::vector<ModelFacts>& models) {
  std::printf("%-18s  %11s  %7s  %13s  %10s  %s\n", "name", "parameters", "classes", "multiply-adds",
              "planned", "summary");
  for (const ModelFacts& model : models)
    std::printf("%-18s  %11lld  %7lld  %13lld  %10s  %s\n", model.name.c_str(),
                static_cast<long long>(model.parameters), static_cast<long long>(model.input.classes),
                static_cast<long long>(model.multiply_adds), human_bytes(model.planned_bytes).c_str(),
                std::string(model_summary(model.name)).c_str());
}

void print_json(const std::vector<ModelFacts>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelFacts& model : models)
    list.push_back({{"name", model.name},
                    {"parameters", model.parameters},
                    {"classes", model.input.classes},
                    {"height", model.input.height},
                    {"width", model.input.width},
                    {"channels", model.input.channels},
                    {"summary", model_summary(model.name)},
                    {"multiply_adds", model.multiply_adds},
                    {"planned_bytes", model.planned_bytes},
                    {"planned_batch", PLANNED_BATCH}});
  std::cout << list.dump() << '\n';
}

}  // namespace

void add_models(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("models", "List the ready networks");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json,
                 "print a list of objects: name, parameters, classes, height, width, channels, summary, "
                 "multiply_adds, planned_bytes, planned_batch");
  verb->footer(EXAMPLES);
  verb->callback([json, &exit_code] {
    const auto catalog = std::make_shared<const Catalog>(make_catalog());
    std::vector<ModelFacts> models;
    for (const std::string& name : model_names()) models.push_back(facts_of(name, catalog));
    *json ? print_json(models) : print_text(models);
    exit_code = EXIT_FINE;
  });
}

}  // namespace tr::cli
