#include "ops/activations/activation_functions.h"
#include "ops/activations/vector_math.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

template <typename Function>
Call forward_call(Function function, const float* x, float* y, int64_t items) {
  return [=] {
    parallel_pieces(items, [=](int64_t first, int64_t last) {
      const Function f = function;
#pragma omp simd
      for (int64_t i = first; i < last; ++i) y[i] = f.forward(x[i]);
    });
  };
}

template <typename Function>
Call backward_call(Function function, const float* kept, const float* dy, float* dx, int64_t items) {
  return [=] {
    parallel_pieces(items, [=](int64_t first, int64_t last) {
      const Function f = function;
#pragma omp simd
      for (int64_t i = first; i < last; ++i) dx[i] = f.backward(kept[i], dy[i]);
    });
  };
}

class ActivationCpuKernels : public OpKernels {
 public:
  explicit ActivationCpuKernels(ActivationKind kind) : kind_(kind) {}

  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const int64_t items = binding.query.y.numel();
    // Of x and y, whichever the pass reads.
    const auto* in = binding.data<const float>(binding.has(Port::X) ? Port::X : Port::Y);
    const bool backward = binding.pass == Pass::BACKWARD;
    const auto* dy = backward ? binding.data<const float>(Port::DY) : nullptr;
    auto* out = binding.data<float>(backward ? Port::DX : Port::Y);
    return activations::with_function<VectorMath>(
        activation_of(kind_, binding.query.attrs), [=](auto function) {
          return backward ? backward_call(function, in, dy, out, items)
                          : forward_call(function, in, out, items);
        });
  }

 private:
  ActivationKind kind_;
};

}  // namespace

#define TR_MAKE_KERNELS(op, KIND)                                        \
  std::unique_ptr<OpKernels> op##_cpu_kernels();                         \
  std::unique_ptr<OpKernels> op##_cpu_kernels() {                        \
    return std::make_unique<ActivationCpuKernels>(ActivationKind::KIND); \
  }
TR_ACTIVATIONS(TR_MAKE_KERNELS)

}  // namespace tr
