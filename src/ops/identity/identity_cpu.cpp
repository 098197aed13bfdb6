#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

class IdentityCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    return [x = binding.data<const float>(Port::X), y = binding.data<float>(Port::Y),
            items = binding.query.y.numel()] {
      parallel_pieces(items, [=](int64_t first, int64_t last) { std::copy(x + first, x + last, y + first); });
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> identity_cpu_kernels();
std::unique_ptr<OpKernels> identity_cpu_kernels() { return std::make_unique<IdentityCpuKernels>(); }

}  // namespace tr
