#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

class ReluCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const int64_t items = binding.query.y.numel();
    if (binding.pass == Pass::BACKWARD)
      return [y = binding.data<const float>(Port::Y), dy = binding.data<const float>(Port::DY),
              dx = binding.data<float>(Port::DX), items] { relu_backward(y, dy, dx, items); };
    return [x = binding.data<const float>(Port::X), y = binding.data<float>(Port::Y), items] {
      relu_forward(x, y, items);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> relu_cpu_kernels();
std::unique_ptr<OpKernels> relu_cpu_kernels() { return std::make_unique<ReluCpuKernels>(); }

}  // namespace tr
