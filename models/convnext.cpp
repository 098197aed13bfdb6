#include "zoo.h"

namespace tr {

namespace {

/// A 1×1 convolution whose weight a state_dict has as that of a Linear over channels.
BluePrint linear(int64_t out) { return conv(out, 1, 1, 0, {.linear = true}); }

BluePrint make_block(int64_t channels, double drop_path) {
  BluePrint body = seq(conv(channels, 7, 1, 3, {.groups = channels}), identity(), layer_norm(),
                       linear(4 * channels), gelu(), linear(channels));
  return residual(seq(named("block", std::move(body)), named("layer_scale", layer_scale(1e-6)),
                      named("stochastic_depth", stochastic_depth(drop_path))));
}

}  // namespace

BluePrint make_convnext_tiny(const ModelSettings& settings) {
  struct Stage {
    int64_t channels, blocks;
  };
  const std::vector<Stage> stages{{96, 3}, {192, 3}, {384, 9}, {768, 3}};
  int64_t blocks = 0, block = 0;
  for (const Stage& stage : stages) blocks += stage.blocks;
  std::vector<BluePrint> features;
  for (const Stage& stage : stages) {
    features.push_back(features.empty() ? seq(conv(stage.channels, 4, 4), layer_norm())
                                        : seq(layer_norm(), conv(stage.channels, 2, 2)));
    std::vector<BluePrint> layers;
    for (int64_t i = 0; i < stage.blocks; ++i, ++block)
      layers.push_back(make_block(
          stage.channels, settings.drop_path * static_cast<double>(block) / static_cast<double>(blocks - 1)));
    features.push_back(seq(std::move(layers)));
  }
  return seq(named("features", seq(std::move(features))), named("avgpool", gap()),
             named("classifier", seq(layer_norm(), flatten(), fc(settings.classes))));
}

}  // namespace tr
