#include "support/cuda_pair.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tr::test {

namespace {

OpCase for_cpu(OpCase c) {
  c.dtype = DType::FP32;
  c.gradients = 1;
  c.statistics = false;
  return c;
}

}  // namespace

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::FP32:
      return 1e-4;
    case DType::FP16:
      return 4e-3;
    case DType::BF16:
      return 3e-2;
    default:
      return 0.0;
  }
}

testing::AssertionResult close_to(std::span<const float> got, std::span<const float> want, double tolerance) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  double scale = 0.0;
  for (const float value : want)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(double{value}));
  const double allowed = tolerance * scale + 1e-7;
  double worst = 0.0;
  size_t worst_at = 0, wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    double error = std::abs(double{got[i]} - double{want[i]});
    if (!std::isfinite(error)) error = INFINITY;
    wrong += error > allowed;
    if (error > worst) worst = error, worst_at = i;
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << want.size() << " elements differ; element "
                                     << worst_at << " is " << got[worst_at] << ", expected " << want[worst_at]
                                     << " within " << allowed;
}

CudaPair::CudaPair(const Catalog& catalog, const OpCase& c)
    : cuda(catalog, c, BackendKind::CUDA), cpu(catalog, for_cpu(c), BackendKind::CPU) {
  copy_inputs();
}

void CudaPair::copy_inputs() {
  for (int i = 0; cuda.has(Port::X, i); ++i) cpu.set(Port::X, i, cuda.get(Port::X, i));
  for (int i = 0; cuda.has(Port::PARAM, i); ++i) cpu.set(Port::PARAM, i, cuda.get(Port::PARAM, i));
  std::vector<float> dy = cuda.get(Port::DY, 0);
  for (int i = 1; cuda.has(Port::DY, i); ++i)
    std::ranges::transform(dy, cuda.get(Port::DY, i), dy.begin(), std::plus<>());
  cpu.set(Port::DY, 0, dy);
}

void CudaPair::compare(Port port, int index, DType precision) {
  EXPECT_TRUE(close_to(cuda.get(port, index), cpu.get(port, index), tolerance_of(precision)))
      << port_name(port) << '[' << index << "] " << dtype_name(cuda.tensor(port, index).dtype);
}

void CudaPair::run(Pass pass, Expect expect) {
  SCOPED_TRACE(pass_name(pass));
  cuda.run(pass, expect);
  cpu.run(pass, expect);
  for (const Use& use : cpu.spec().uses(cpu.query(), pass)) {
    if (!use.write) continue;
    // What a 16-bit operator computes in FP32, losses and statistics, comes from the same inputs.
    compare(use.port, use.index, cuda.tensor(use.port, use.index).dtype);
    const bool taken = use.port == Port::Y || use.port == Port::SAVED;
    if (taken && cpu.tensor(use.port, use.index).dtype == DType::FP32)
      cpu.set(use.port, use.index, cuda.get(use.port, use.index));
  }
}

void CudaPair::run_backward(Expect expect) {
  SCOPED_TRACE("backward");
  cuda.run_backward(expect);
  cpu.run_backward(expect);
  const DType dtype = cuda.query().dtype;
  for (int i = 0; i < static_cast<int>(cuda.query().x.size()); ++i)
    if (cuda.has(Port::DX, i)) compare(Port::DX, i, dtype);
  // FP32 gradients, of biases, may sum what was rounded on the way.
  for (int i = 0; cuda.has(Port::PARAM_GRAD, i); ++i) compare(Port::PARAM_GRAD, i, dtype);
}

}  // namespace tr::test
