/// The fastest of several ways to do a node's work, by timing, remembered.
#pragma once

#include <functional>
#include <optional>
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

/// Builds the way that was chosen for `work` before; else times the ways in their order, several calls of
/// each in one graph, which is how training runs them, and remembers the fastest. `work` says all that the
/// choice depends on, `node` is whose it is, for errors.
///
/// A way that throws an Error while it is built, captured or run does not run: it is left out, with a line
/// for context.debug. NotSupportedError with the node and the last reason where no way runs. Leaves no CUDA
/// error behind; DeviceError where one stays, which is the device's.
Call fastest(CudaContext& context, const std::string& node, const std::string& work,
             const std::vector<Way>& ways);

/// The name of the way that was chosen for `work` before, if it is one of `family`.
std::optional<std::string> chosen_of_family(const CudaContext& context, const std::string& work,
                                            const std::string& family);

}  // namespace tr
