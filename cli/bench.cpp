#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "integer_range.h"
#include "renaissance/models.h"
#include "renaissance/train/step_benchmark.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance bench resnet20 --batch 128
  renaissance bench mlp --batch 200 --optimizer adamw --threads 2 --json
  renaissance bench resnet50 --batch 256 --precision fp16 --device cuda --profile

Runs whole training steps on one synthetic batch: forward, backward, optimizer, statistics. Label smoothing 0.1.)";

struct BenchOptions {
  std::string model, precision = "fp32", device = "cpu", optimizer = "nesterov";
  int64_t batch = 128, height = 0, width = 0, channels = 0;
  int threads = 0;
  double seconds = 5.0;
  int64_t workspace_cap_bytes = 0;
  bool deterministic = true, profile = false, json = false;
  std::vector<std::string> overrides;
};

Recipe bench_recipe(const BenchOptions& options) {
  const ModelInput input = model_input(options.model);
  const auto or_model = [](int64_t given, int64_t otherwise) { return given > 0 ? given : otherwise; };
  Recipe recipe;
  recipe.name = "bench";
  recipe.model.name = options.model;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = input.classes;
  recipe.data.channels = or_model(options.channels, input.channels);
  recipe.data.height = or_model(options.height, input.height);
  recipe.data.width = or_model(options.width, input.width);
  recipe.data.train_samples = recipe.data.val_samples = options.batch;
  recipe.train.batch_size = options.batch;
  recipe.train.label_smoothing = 0.1;
  recipe.optimizer.kind = parse_optimizer(options.optimizer);
  recipe.optimizer.learning_rate = recipe.optimizer.kind == OptimizerKind::ADAMW ? 1e-3 : 0.01;
  recipe.optimizer.weight_decay = 1e-4;
  recipe.precision = parse_precision(options.precision);
  recipe.device = parse_backend(options.device);
  recipe.threads = options.threads;
  recipe.deterministic = options.deterministic;
  if (options.workspace_cap_bytes > 0) recipe.workspace_cap_bytes = options.workspace_cap_bytes;
  return parse_recipe(recipe_to_yaml(recipe), "bench", options.overrides);
}

/// A node's bytes at the copy rate, or its arithmetic at the matrix rate, whichever takes longer. What fits a
/// cache can be faster. 0 where the rates are not known.
double floor_ms(const NodeTime& node, const DeviceRates& rates) {
  if (rates.copy_bytes_per_s <= 0.0) return 0.0;
  return 1e3 * std::max(static_cast<double>(node.work.bytes) / rates.copy_bytes_per_s,
                        static_cast<double>(node.work.flops) / rates.matrix_flops_per_s);
}

void print_profile(const StepBenchmark& result) {
  std::vector<NodeTime> nodes = result.nodes;
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  double all_ms = 0.0, all_floors_ms = 0.0;
  for (const NodeTime& node : nodes) {
    all_ms += node.ms;
    all_floors_ms += floor_ms(node, result.rates);
  }
  std::printf("\n%10s %7s %10s %10s %10s  %s\n", "ms", "share", "floor ms", "MB", "GFLOP",
              "node, run by itself");
  for (const NodeTime& node : nodes)
    std::printf("%10.4f %6.2f%% %10.4f %10.2f %10.2f  %s\n", node.ms, 100.0 * node.ms / all_ms,
                floor_ms(node, result.rates), static_cast<double>(node.work.bytes) / 1e6,
                static_cast<double>(node.work.flops) / 1e9, node.name.c_str());
  std::printf("%10.4f %6.2f%% %10.4f  all %zu nodes\n", all_ms, 100.0, all_floors_ms, nodes.size());
}

nlohmann::ordered_json json_of(const Recipe& recipe, const StepBenchmark& result, bool profile) {
  nlohmann::ordered_json json{{"model", recipe.model.name},
                              {"batch", recipe.train.batch_size},
                              {"precision", precision_name(recipe.precision)},
                              {"device", backend_name(recipe.device)},
                              {"step_ms", result.step_ms},
                              {"step_ms_min", result.step_ms_min},
                              {"step_ms_max", result.step_ms_max},
                              {"images_per_s", result.images_per_s},
                              {"planned_bytes", result.planned_bytes},
                              {"device_bytes", result.device_bytes},
                              {"device_overhead_bytes", result.device_overhead_bytes},
                              {"moved_bytes", result.moved_bytes},
                              {"flops", result.flops},
                              {"compile_ms", result.compile_ms},
                              {"prepare_ms", result.prepare_ms}};
  if (!profile) return json;
  json["copy_bytes_per_s"] = result.rates.copy_bytes_per_s;
  json["matrix_flops_per_s"] = result.rates.matrix_flops_per_s;
  for (const NodeTime& node : result.nodes)
    json["nodes"].push_back({{"name", node.name},
                             {"ms", node.ms},
                             {"floor_ms", floor_ms(node, result.rates)},
                             {"bytes", node.work.bytes},
                             {"flops", node.work.flops}});
  return json;
}

void print(const Recipe& recipe, const StepBenchmark& result, bool profile) {
  std::printf("%s, batch %lld, %s, %s: step %.3f ms (%.3f to %.3f over %lld steps), %.0f images/s\n",
              recipe.model.name.c_str(), static_cast<long long>(recipe.train.batch_size),
              std::string(precision_name(recipe.precision)).c_str(),
              std::string(backend_name(recipe.device)).c_str(), result.step_ms, result.step_ms_min,
              result.step_ms_max, static_cast<long long>(result.steps), result.images_per_s);
  std::printf("planned %lld bytes; compiled in %.1f ms, prepared in %.1f s\n",
              static_cast<long long>(result.planned_bytes), result.compile_ms, result.prepare_ms / 1e3);
  if (result.device_bytes > 0)
    std::printf("device: %lld bytes in use for it, %lld before it\n",
                static_cast<long long>(result.device_bytes),
                static_cast<long long>(result.device_overhead_bytes));
  const double moved_rate = static_cast<double>(result.moved_bytes) / result.step_ms * 1e3,
               flop_rate = static_cast<double>(result.flops) / result.step_ms * 1e3;
  std::printf("moves %.3f GB a step and computes %.2f GFLOP", static_cast<double>(result.moved_bytes) / 1e9,
              static_cast<double>(result.flops) / 1e9);
  if (result.rates.copy_bytes_per_s > 0.0)
    std::printf(": %.1f %% of the copy rate of %.0f GB/s, %.1f %% of the matrix rate of %.1f TFLOP/s",
                100.0 * moved_rate / result.rates.copy_bytes_per_s, result.rates.copy_bytes_per_s / 1e9,
                100.0 * flop_rate / result.rates.matrix_flops_per_s, result.rates.matrix_flops_per_s / 1e12);
  std::printf("\n");
  if (profile) print_profile(result);
}

int bench(const BenchOptions& options) {
  const Recipe recipe = bench_recipe(options);
  const StepBenchmark result = benchmark_step(
      recipe,
      {.seconds = options.seconds, .rates = options.profile || !options.json, .profile = options.profile});
  if (options.json)
    std::cout << json_of(recipe, result, options.profile).dump() << '\n';
  else
    print(recipe, result, options.profile);
  return EXIT_FINE;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Time the training steps of a ready network");
  const auto options = std::make_shared<BenchOptions>();
  verb->add_option("model", options->model, "a name of 'renaissance models'")
      ->required()
      ->option_text("MODEL");
  verb->add_option("overrides", options->overrides, "recipe keys, for instance memory.budget=5GiB")
      ->option_text("[KEY=VALUE ...]");
  verb->add_option("--batch", options->batch, "samples per step")
      ->transform(integer_range(1))
      ->capture_default_str();
  verb->add_option("--precision", options->precision, "fp32, fp16 or bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  verb->add_option("--device", options->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--optimizer", options->optimizer,
                   "sgd, momentum, nesterov, adam, adamw, lars or lars_nesterov")
      ->capture_default_str();
  verb->add_option("--height", options->height, "of images; default: the model's")
      ->transform(integer_range(1));
  verb->add_option("--width", options->width, "of images; default: the model's")->transform(integer_range(1));
  verb->add_option("--channels", options->channels, "of images; default: the model's")
      ->transform(integer_range(1));
  verb->add_option("--threads", options->threads, "compute threads; 0: all cores")
      ->transform(integer_range(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  verb->add_option("--seconds", options->seconds, "how long to run, warm-up included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option(
          "--workspace-cap", options->workspace_cap_bytes,
          "cuda: the most that one library call may use as scratch, in bytes or as 64MiB; default 32MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  verb->add_flag("--deterministic,!--no-deterministic", options->deterministic,
                 "cuda: use only algorithms that give the same bits each time; on by default");
  verb->add_flag(
      "--profile", options->profile,
      "also time every node by itself, beside its bytes and arithmetic at the device's measured rates");
  verb->add_flag(
      "--json", options->json,
      "print one object: model, batch, precision, device, step_ms, step_ms_min, step_ms_max, images_per_s, "
      "planned_bytes, device_bytes and more");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tr::cli
