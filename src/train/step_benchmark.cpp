#include "renaissance/train/step_benchmark.h"

#include <algorithm>
#include <chrono>

#include "renaissance/core/philox.h"
#include "renaissance/train/trainer.h"
#include "train/initialize.h"

namespace tr {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void fill_input(Context& context, InputBuffer buffer, uint64_t seed) {
  const CompiledModel& model = context.model();
  const Shape& shape = model.request.inputs[0];
  const Philox philox(seed);
  for (int rank = 0; rank < context.arenas().ranks(); ++rank) {
    const InputSlot slot = context.input(rank, buffer);
    auto* pixels = reinterpret_cast<float*>(slot.data);
    for (int64_t i = 0; i < shape.numel(); ++i) {
      const auto block =
          philox.at(RandomPurpose::SYNTHETIC, static_cast<uint32_t>(rank), static_cast<uint64_t>(i / 4));
      pixels[i] = 2.0f * Philox::uniform(block[static_cast<size_t>(i % 4)]) - 1.0f;
    }
    for (int64_t n = 0; n < shape.n(); ++n) slot.labels[n] = static_cast<int32_t>(n % model.request.classes);
  }
}

}  // namespace

StepBenchmark benchmark_step(const Recipe& recipe, double seconds) {
  constexpr size_t LEAST_STEPS = 5, MOST_STEPS = 100000;
  StepBenchmark result;
  const auto catalog = std::make_shared<const Catalog>(make_catalog());
  const CompileRequest request = compile_request(recipe, data_info(recipe, false), false);
  const Clock::time_point compile_start = Clock::now();
  const auto model = std::make_shared<const CompiledModel>(compile(request, catalog));
  result.compile_ms = ms_since(compile_start);
  result.planned_bytes = model->plan(Variant::TRAIN_BASE).total_bytes();

  const auto context = make_context(model);
  initialize(*context, recipe);
  fill_input(*context, InputBuffer::A, recipe.train.seed);
  const auto step = context->capture(Variant::TRAIN_BASE, InputBuffer::A);
  const auto run_once = [&] {
    const Clock::time_point start = Clock::now();
    step->launch();
    context->synchronize();
    return ms_since(start);
  };
  const Clock::time_point warm_up = Clock::now();
  do run_once();
  while (ms_since(warm_up) < 200.0 * seconds);

  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  while (times.size() < LEAST_STEPS || (ms_since(start) < 800.0 * seconds && times.size() < MOST_STEPS))
    times.push_back(run_once());
  std::sort(times.begin(), times.end());
  result.steps = static_cast<int64_t>(times.size());
  result.step_ms = times[times.size() / 2];
  result.step_ms_min = times.front();
  result.step_ms_max = times.back();
  result.images_per_s = static_cast<double>(recipe.train.batch_size * recipe.ranks) / result.step_ms * 1e3;
  return result;
}

}  // namespace tr
