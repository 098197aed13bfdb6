#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "renaissance/models.h"
#include "renaissance/train/step_benchmark.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance bench resnet20 --batch 128
  renaissance bench mlp --batch 200 --optimizer adamw --threads 2 --json

Runs whole training steps on one synthetic batch: forward, backward, optimizer, statistics. Label smoothing 0.1.)";

struct BenchOptions {
  std::string model, precision = "fp32", device = "cpu", optimizer = "nesterov";
  int64_t batch = 128, height = 0, width = 0, channels = 0;
  int threads = 0;
  double seconds = 5.0;
  bool json = false;
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
  check_recipe(recipe);
  return recipe;
}

int bench(const BenchOptions& options) {
  const StepBenchmark result = benchmark_step(bench_recipe(options), options.seconds);
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"model", options.model},
                                        {"batch", options.batch},
                                        {"precision", options.precision},
                                        {"device", options.device},
                                        {"step_ms", result.step_ms},
                                        {"step_ms_min", result.step_ms_min},
                                        {"step_ms_max", result.step_ms_max},
                                        {"images_per_s", result.images_per_s},
                                        {"planned_bytes", result.planned_bytes},
                                        {"compile_ms", result.compile_ms}}
                     .dump()
              << '\n';
  } else {
    std::printf("%s, batch %lld, %s, %s: step %.3f ms (%.3f to %.3f over %lld steps), %.0f images/s\n",
                options.model.c_str(), static_cast<long long>(options.batch), options.precision.c_str(),
                options.device.c_str(), result.step_ms, result.step_ms_min, result.step_ms_max,
                static_cast<long long>(result.steps), result.images_per_s);
    std::printf("planned %lld bytes, compiled in %.1f ms\n", static_cast<long long>(result.planned_bytes),
                result.compile_ms);
  }
  return EXIT_FINE;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Time the training steps of a ready network");
  const auto options = std::make_shared<BenchOptions>();
  verb->add_option("model", options->model, "a name of 'renaissance models'")
      ->required()
      ->option_text("MODEL");
  verb->add_option("--batch", options->batch, "samples per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--precision", options->precision, "fp32, fp16 or bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  verb->add_option("--device", options->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--optimizer", options->optimizer, "sgd, momentum, nesterov, adam or adamw")
      ->capture_default_str();
  verb->add_option("--height", options->height, "of images; default: the model's")
      ->check(CLI::PositiveNumber);
  verb->add_option("--width", options->width, "of images; default: the model's")->check(CLI::PositiveNumber);
  verb->add_option("--channels", options->channels, "of images; default: the model's")
      ->check(CLI::PositiveNumber);
  verb->add_option("--threads", options->threads, "compute threads; 0: all cores")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--seconds", options->seconds, "how long to run, warm-up included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_flag(
      "--json", options->json,
      "print one object: model, batch, precision, device, step_ms, step_ms_min, step_ms_max, images_per_s, "
      "planned_bytes, compile_ms");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tr::cli
