/// FP16 and BF16 for kernels that compute in FP32: their 16-bit operands are copied to FP32 in the workspace,
/// the kernel runs on the copies, and what it wrote is rounded once to nearest even. Operands that are FP32
/// under mixed precision too (statistics, masters of norms and biases, losses) and masks are passed as they
/// are. All inputs are copied before any output is written, so outputs may lie on inputs' bytes.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

/// `kernels` with that added; null where there are none. A pass whose 16-bit offer `kernels` does not decline
/// runs as they offer it. `spec`, of the same operator, must outlive the result.
std::unique_ptr<OpKernels> with_sixteen_bits(std::unique_ptr<OpKernels> kernels, const OpSpec& spec);

}  // namespace tr
