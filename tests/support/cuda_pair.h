/// One operator on CUDA beside the same on the CPU in FP32, from the same values.
#pragma once

#include <gtest/gtest.h>

#include <span>

#include "support/op_rig.h"

namespace tr::test {

/// Allowed difference from the CPU's FP32 result, relative to the largest magnitude of a tensor: FP32 sums in
/// another order (1e-4), or a few roundings to 11 (4e-3) or 8 bits (3e-2).
double tolerance_of(DType dtype);

/// Both NaN, both the same infinity, or apart by at most `tolerance` times the largest finite magnitude of
/// `want` (1e-7 more where that is zero). The message names the worst element.
testing::AssertionResult close_to(std::span<const float> got, std::span<const float> want, double tolerance);

/// `cuda` computes in the case's dtype; `cpu` starts from the values of x, parameters and dy as that dtype
/// rounds them, dy summed where there are several.
class CudaPair {
 public:
  CudaPair(const Catalog& catalog, const OpCase& c);

  /// The CPU's inputs again, after a test changed CUDA's.
  void copy_inputs();
  /// Runs a forward pass on both and compares what the CPU writes; bytes and integers must be equal. Then the
  /// CPU takes over CUDA's y and statistics, so that backward starts from the same.
  void run(Pass pass, Expect expect = Expect::FINITE);
  /// Runs all backward passes on both and compares every gradient.
  void run_backward(Expect expect = Expect::FINITE);

  OpRig cuda, cpu;

 private:
  void compare(Port port, int index, DType precision);
};

}  // namespace tr::test
