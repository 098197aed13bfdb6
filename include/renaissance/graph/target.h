/// What a plan depends on of a machine, as a value: made from a device or written down without one.
#pragma once

#include <string>

#include "renaissance/core/types.h"

namespace tr {

struct Target {
  BackendKind backend = BackendKind::CPU;
  int ranks = 1;
  int compute_capability = 0;                ///< CUDA: 90 for Hopper
  int64_t workspace_cap_bytes = 32ll << 20;  ///< largest library workspace of one node
  int threads = 0;  ///< CPU: compute threads, which library scratch depends on; 0: all cores
  bool deterministic = true;
  bool allow_tf32 = false;  ///< CUDA: FP32 matrix work on the TF32 units
  bool fuse = true;         ///< let operators absorb what follows them
};

/// The card that CUDA plans are made for where none is named: compute capability 9.0.
Target default_target(BackendKind backend);

}  // namespace tr
