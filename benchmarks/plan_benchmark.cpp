// How long compiling and planning six variants takes on one core. Goal for ResNet-50: below 100 ms.
#include <benchmark/benchmark.h>

#include "renaissance/graph/compiler.h"
#include "renaissance/models.h"

namespace tr {
namespace {

void plan_six_variants(benchmark::State& state, const char* name, BackendKind backend, Precision precision) {
  const auto catalog = std::make_shared<const Catalog>(make_catalog());
  CompileRequest request;
  request.model = make_model(name, 1000);
  const int64_t low =
      std::string_view(name) == "vgg16_bn" ? 224 : 160;  // vgg's classifier has one resolution
  request.inputs = {Shape(256, 224, 224, 3), Shape(143, 224, 224, 3), Shape(256, low, low, 3),
                    Shape(143, low, low, 3), Shape(256, 224, 224, 3), Shape(80, 224, 224, 3)};
  request.classes = 1000;
  request.config.precision = precision;
  request.config.optimizer = OptimizerKind::NESTEROV;
  request.target = default_target(backend);
  request.plan_only = true;
  int64_t bytes = 0;
  for (auto _ : state) bytes = compile(request, catalog).plan(Variant::TRAIN_BASE).total_bytes();
  state.counters["planned_bytes"] = static_cast<double>(bytes);
}

BENCHMARK_CAPTURE(plan_six_variants, resnet50_cuda_fp16, "resnet50", BackendKind::CUDA, Precision::FP16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_six_variants, resnet50_cpu_fp32, "resnet50", BackendKind::CPU, Precision::FP32)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_six_variants, resnet101_cuda_fp16, "resnet101", BackendKind::CUDA, Precision::FP16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_six_variants, vgg16_bn_cuda_fp16, "vgg16_bn", BackendKind::CUDA, Precision::FP16)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tr
