#include "renaissance/train/step_benchmark.h"

#include <algorithm>
#include <chrono>

#include "renaissance/core/philox.h"
#include "renaissance/train/trainer.h"
#include "train/fitting_context.h"
#include "train/initialize.h"
#include "train/state_dict.h"

namespace tr {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Random pixels, as bytes or normalized; labels in turn.
void fill_input(Context& context, InputBuffer buffer, uint64_t seed) {
  const CompiledModel& model = context.model();
  const Shape& shape = model.request.inputs[0];
  const Philox philox(seed);
  std::vector<float> pixels(static_cast<size_t>(shape.numel()));
  for (int rank = 0; rank < context.arenas().ranks(); ++rank) {
    const InputSlot slot = context.input(rank, buffer);
    auto* bytes = reinterpret_cast<uint8_t*>(slot.data);
    for (int64_t first = 0; first < shape.numel(); first += 4) {
      const Philox::Block block =
          philox.at(RandomPurpose::SYNTHETIC, static_cast<uint32_t>(rank), static_cast<uint64_t>(first / 4));
      for (int64_t i = first; i < std::min(first + 4, shape.numel()); ++i) {
        const uint32_t bits = block[static_cast<size_t>(i - first)];
        if (slot.raw_bytes)
          bytes[i] = static_cast<uint8_t>(bits >> 24);
        else
          pixels[static_cast<size_t>(i)] = 2.0f * Philox::uniform(bits) - 1.0f;
      }
    }
    if (!slot.raw_bytes) put_pixels(slot, pixels, shape.c());
    for (int64_t n = 0; n < shape.n(); ++n) slot.labels[n] = static_cast<int32_t>(n % model.request.classes);
  }
}

/// Steps launched between two looks at the clock: enough of short ones that the launch of the first and the
/// wait for the last do not count.
int64_t group_size(const Context& context, double step_ms) {
  constexpr double LEAST_MS = 20.0, MOST_STEPS = 200.0;
  return context.loads_ahead() ? static_cast<int64_t>(std::clamp(LEAST_MS / step_ms, 1.0, MOST_STEPS)) : 1;
}

void measure(Context& context, CapturedStep& step, double seconds, StepBenchmark& result) {
  constexpr size_t LEAST = 5, MOST = 100000;
  const auto run = [&](int64_t steps) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step.launch();
    context.synchronize();
    return ms_since(start) / static_cast<double>(steps);
  };
  double last_ms = 0.0;
  const Clock::time_point warm_up = Clock::now();
  do last_ms = run(1);
  while (ms_since(warm_up) < 200.0 * seconds);

  const int64_t group = group_size(context, last_ms);
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  while (times.size() < LEAST || (ms_since(start) < 800.0 * seconds && times.size() < MOST))
    times.push_back(run(group));
  std::sort(times.begin(), times.end());
  result.steps = group * static_cast<int64_t>(times.size());
  result.step_ms = times[times.size() / 2];
  result.step_ms_min = times.front();
  result.step_ms_max = times.back();
}

void add_work(const CompiledModel& model, StepBenchmark& result) {
  for (const GraphNode* node : program_nodes(model.graph, Program::TRAIN)) {
    const NodeWork work = node_work(model, *node, Variant::TRAIN_BASE);
    result.moved_bytes += work.bytes;
    result.flops += work.flops;
  }
}

}  // namespace

StepBenchmark benchmark_step(const Recipe& recipe, const StepBenchmarkOptions& options) {
  StepBenchmark result;
  const auto catalog = std::make_shared<const Catalog>(make_catalog());
  const DataInfo info = data_info(recipe, false);
  const CompileRequest request = compile_request(recipe, info, false);
  const Clock::time_point compile_start = Clock::now();
  const auto model = std::make_shared<const CompiledModel>(compile(request, catalog));
  result.compile_ms = ms_since(compile_start);
  result.planned_bytes = model->plan(Variant::TRAIN_BASE).total_bytes();

  const Clock::time_point prepare_start = Clock::now();
  const auto context = make_fitting_context(model, recipe, info);
  const auto step = context->capture(Variant::TRAIN_BASE, InputBuffer::A);
  result.prepare_ms = ms_since(prepare_start);
  initialize(*context, recipe);
  refresh_copies(*context);
  for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B}) {
    fill_input(*context, buffer, recipe.train.seed);
    context->load_input(Variant::TRAIN_BASE, buffer);
  }
  measure(*context, *step, options.seconds, result);
  result.images_per_s = static_cast<double>(recipe.train.batch_size * recipe.ranks) / result.step_ms * 1e3;
  result.device_bytes = context->device_bytes();
  result.device_overhead_bytes = context->device_overhead_bytes();

  add_work(*model, result);
  if (options.profile) {
    constexpr int REPEATS = 7;
    result.nodes = context->profile(Variant::TRAIN_BASE, REPEATS);
  }
  if (options.rates) {
    try {
      result.rates = context->measure_rates(compute_dtype(recipe.precision));
    } catch (const Error&) {
      // No room beside the arena: what was measured still counts, without the rates.
    }
  }
  return result;
}

}  // namespace tr
