// Batch normalization, memory bound: FORWARD reads x twice and writes y once, BACKWARD reads x and dy twice.
#include "ops/bn/bn_cpu_backward.h"
#include "ops/bn/bn_cpu_forward.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

class BnCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    std::string declined = bn_declines(query, pass);
    if (declined.empty()) declined = cpu_declines(query.dtype);
    return {declined, batch_norm::Scratch(batch_norm::Rows(query.x[0]), WorkspaceSlices()).bytes};
  }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const batch_norm::Rows map(binding.query.x[0]);
    const batch_norm::Scratch scratch(map, WorkspaceSlices(binding.workspace));
    if (binding.pass != Pass::BACKWARD) return batch_norm::prepare_forward(binding, map, scratch);
    const BnAttributes attrs(binding.query.attrs);
    if (!attrs.relu) return batch_norm::prepare_backward<batch_norm::Mask::NONE>(binding, map, scratch);
    return attrs.residual ? batch_norm::prepare_backward<batch_norm::Mask::FROM_Y>(binding, map, scratch)
                          : batch_norm::prepare_backward<batch_norm::Mask::FROM_X>(binding, map, scratch);
  }
};

}  // namespace

std::unique_ptr<OpKernels> bn_cpu_kernels();
std::unique_ptr<OpKernels> bn_cpu_kernels() { return std::make_unique<BnCpuKernels>(); }

}  // namespace tr
