/// First values of weights, statistics and scalars, keyed by (seed, parameter name, element).
#pragma once

#include <vector>

#include "renaissance/backend/backend.h"
#include "renaissance/train/recipe.h"

namespace tr {

/// Values of one parameter in K,R,S,C order.
///   pytorch  weights and biases uniform in ±1/√fan_in (torch.nn's reset_parameters)
///   kaiming  weights normal with variance 2 / fan_out, biases 0  (He et al. 2015, torchvision's ResNet)
///   xavier   weights uniform in ±√(6 / (fan_in + fan_out)), biases 0  (Glorot, Bengio 2010)
/// BatchNorm weights are 1 and biases 0 in all three.
std::vector<float> initial_values(const Parameter& parameter, InitScheme scheme, uint64_t seed);

/// Writes parameters, running statistics and baseline scalars into every rank's arena.
void initialize(Context& context, const Recipe& recipe);

}  // namespace tr
