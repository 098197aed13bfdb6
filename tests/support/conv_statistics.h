/// Convolutions on CUDA that leave STATISTICS for the batch norm behind them.
#pragma once

#include "support/cuda_pair.h"

namespace tr::test {

/// Forward with statistics and backward, in c.dtype, against the CPU's convolution. y lacks the bias, whose
/// gradient is zero behind a batch norm, so the CPU's gets a bias of zeros; the sums are compared with those
/// of the y that was stored. Reports disagreements as gtest failures.
void check_convolution_with_statistics(const Catalog& catalog, OpCase c);

}  // namespace tr::test
