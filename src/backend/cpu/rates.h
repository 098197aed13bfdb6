/// Times calls on the CPU, and what the CPU reaches on work made for it.
#pragma once

#include "ops/support/cpu.h"
#include "renaissance/backend/backend.h"

namespace tr {

/// Median milliseconds of one run, after one that warms up.
double median_ms(const Call& call, int repeats);

/// A copy of 256 MiB by all threads and a product of 2048 x 2048 FP32 matrices through oneDNN.
DeviceRates measure_cpu_rates(CpuContext& context);

}  // namespace tr
