/// The fastest of several ways to do a node's work, by timing, remembered.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/support/cuda.h"

namespace tr {

/// One way to do a node's work.
struct Way {
  std::string family;           ///< ways of one kind; only the first few of a family that run are timed
  std::string name;             ///< tells the ways of a family apart, in every process
  std::function<Call()> build;  ///< null where it cannot be done this way
  bool last_resort = false;     ///< only where no way before it runs
};

/// Builds the way that was chosen for `work` before; else times the ways in their order, and remembers the
/// fastest. `work` says all that the choice depends on. NotSupportedError where no way runs. Leaves no CUDA
/// error behind.
Call fastest(CudaContext& context, const std::string& work, const std::vector<Way>& ways);

}  // namespace tr
