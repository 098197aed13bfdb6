// The one list of operators.
#include "renaissance/graph/op_spec.h"

#define TR_OPERATORS(X)                                                                        \
  X(conv) X(bn) X(relu) X(maxpool) X(avgpool) X(gap) X(flatten) X(fc) X(dropout) X(identity) \
  X(add) X(leaky_relu) X(softmax_cross_entropy)

namespace tr {

#define TR_DECLARE(op)                                 \
  std::unique_ptr<OpSpec> op##_spec();                 \
  std::unique_ptr<OpKernels> op##_cpu_kernels();       \
  std::unique_ptr<OpKernels> op##_cuda_kernels();
TR_OPERATORS(TR_DECLARE)

Catalog make_catalog() {
  Catalog catalog;
#define TR_ADD(op) catalog.add({op##_spec(), {op##_cpu_kernels(), op##_cuda_kernels()}});
  TR_OPERATORS(TR_ADD)
  return catalog;
}

}  // namespace tr
