/// One finite-difference check for all gradients of an operator: every input that has one and every
/// parameter.
///   loss = sum(y * dy), or the operator's own LOSS; central differences of FP32 passes, summed in double.
#pragma once

#include "support/op_rig.h"

namespace tr::test {

struct GradientCheck {
  float step = 1e-3f;          ///< of the outer difference; a second one uses half of it
  double tolerance = 5e-3;     ///< relative to the largest magnitude of the gradient
  int64_t most_elements = 40;  ///< evenly spaced, per tensor
};

/// Reports disagreements as gtest failures. Where the two differences disagree with each other the function
/// has a kink (ReLU, max) and the element does not count; at least three quarters must count.
void check_gradients(const Catalog& catalog, const OpCase& c, const GradientCheck& how = {});

}  // namespace tr::test
