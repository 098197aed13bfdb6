// The one list of operators.
#include "ops/support/sixteen_bit_kernels.h"
#include "renaissance/graph/op_spec.h"

#define TR_OPERATORS(X)                                                                                      \
  X(conv)                                                                                                    \
  X(bn) X(relu) X(maxpool) X(avgpool) X(gap) X(flatten) X(fc) X(dropout) X(identity) X(add) X(concat)        \
      X(channel_scale) X(adaptive_avgpool) X(leaky_relu) X(softmax_cross_entropy) X(sigmoid) X(tanh) X(silu) \
          X(hardswish) X(hardsigmoid) X(relu6) X(elu) X(gelu) X(layer_norm) X(layer_scale)                   \
              X(stochastic_depth)

namespace tr {

#define TR_DECLARE(op)                           \
  std::unique_ptr<OpSpec> op##_spec();           \
  std::unique_ptr<OpKernels> op##_cpu_kernels(); \
  std::unique_ptr<OpKernels> op##_cuda_kernels();
TR_OPERATORS(TR_DECLARE)

namespace {

void add(Catalog& catalog, std::unique_ptr<OpSpec> spec, std::unique_ptr<OpKernels> cpu,
         std::unique_ptr<OpKernels> cuda) {
  cpu = with_sixteen_bits(std::move(cpu), *spec);
  catalog.add({std::move(spec), {std::move(cpu), std::move(cuda)}});
}

}  // namespace

Catalog make_catalog() {
  Catalog catalog;
#define TR_ADD(op) add(catalog, op##_spec(), op##_cpu_kernels(), op##_cuda_kernels());
  TR_OPERATORS(TR_ADD)
  return catalog;
}

}  // namespace tr
