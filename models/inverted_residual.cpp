#include "inverted_residual.h"

#include <algorithm>

namespace tr {

BluePrint conv_norm(int64_t out, int64_t kernel, int64_t stride, int64_t groups, const BlockStyle& style,
                    bool linear) {
  std::vector<BluePrint> layers{
      conv(out, kernel, stride, (kernel - 1) / 2, {.bias = false, .groups = groups}), style.norm};
  if (!linear) layers.push_back(style.activation);
  return seq(std::move(layers));
}

BluePrint squeeze_excitation(int64_t channels, int64_t squeezed, BluePrint activation, BluePrint gate) {
  return branches(
      "channel_scale",
      {named("input", identity()),
       without_level(seq(named("avgpool", gap()), named("fc1", conv(squeezed, 1)),
                         named("activation", std::move(activation)), named("fc2", conv(channels, 1)),
                         named("scale_activation", std::move(gate))))});
}

BluePrint pooled_classifier(std::vector<BluePrint> features, BluePrint classifier) {
  return seq(named("features", seq(std::move(features))), named("avgpool", gap()),
             named("flatten", flatten()), named("classifier", std::move(classifier)));
}

int64_t round_channels(int64_t channels) {
  constexpr int64_t MULTIPLE = 8;
  const int64_t rounded = std::max(MULTIPLE, (channels + MULTIPLE / 2) / MULTIPLE * MULTIPLE);
  return 10 * rounded < 9 * channels ? rounded + MULTIPLE : rounded;
}

}  // namespace tr
