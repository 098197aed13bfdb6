/// What networks of inverted residual blocks share: an expansion by 1×1, a depthwise convolution, a squeeze
/// and excitation where there is one, a projection by 1×1 without activation.
#pragma once

#include <vector>

#include "renaissance/graph/blueprint.h"

namespace tr {

/// The normalization and the activation of a network.
struct BlockStyle {
  BluePrint norm = bn();
  BluePrint activation;
};

/// Convolution "same" at stride 1, normalization and, unless it is linear, an activation: 0, 1, 2.
BluePrint conv_norm(int64_t out, int64_t kernel, int64_t stride, int64_t groups, const BlockStyle& style,
                    bool linear = false);

/// x times gate(fc2(activation(fc1(mean of x)))), `fc` being 1×1 convolutions named so.
BluePrint squeeze_excitation(int64_t channels, int64_t squeezed, BluePrint activation, BluePrint gate);

/// `features`, the mean of each channel, `classifier`, named so.
BluePrint pooled_classifier(std::vector<BluePrint> features, BluePrint classifier);

/// Rounded to a multiple of 8, never down by more than a tenth.
int64_t round_channels(int64_t channels);

}  // namespace tr
