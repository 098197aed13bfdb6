#include <string>

#include "renaissance/core/error.h"
#include "zoo.h"

namespace tr {

namespace {

constexpr ConvOptions NO_BIAS{.bias = false};
constexpr int64_t GROWTH = 32, BOTTLENECK = 4 * GROWTH;

/// What came so far, and behind it what this layer makes of it.
BluePrint make_layer() {
  return branches(
      "concat", {named("input", identity()),
                 without_level(seq(named("norm1", bn()), named("relu1", relu()),
                                   named("conv1", conv(BOTTLENECK, 1, 1, 0, NO_BIAS)), named("norm2", bn()),
                                   named("relu2", relu()), named("conv2", conv(GROWTH, 3, 1, 1, NO_BIAS))))});
}

BluePrint make_block(int64_t layers) {
  std::vector<BluePrint> all;
  for (int64_t i = 1; i <= layers; ++i) all.push_back(named(cat("denselayer", i), make_layer()));
  return seq(std::move(all));
}

BluePrint make_transition(int64_t out) {
  return seq(named("norm", bn()), named("relu", relu()), named("conv", conv(out, 1, 1, 0, NO_BIAS)),
             named("pool", avgpool(2, 2)));
}

}  // namespace

BluePrint make_densenet121(const ModelSettings& settings) {
  int64_t channels = 64;
  std::vector<BluePrint> features{named("conv0", conv(channels, 7, 2, 3, NO_BIAS)), named("norm0", bn()),
                                  named("relu0", relu()), named("pool0", maxpool(3, 2, 1))};
  const std::vector<int64_t> blocks{6, 12, 24, 16};
  for (size_t i = 0; i < blocks.size(); ++i) {
    features.push_back(named(cat("denseblock", i + 1), make_block(blocks[i])));
    channels += blocks[i] * GROWTH;
    if (i + 1 == blocks.size()) break;
    channels /= 2;
    features.push_back(named(cat("transition", i + 1), make_transition(channels)));
  }
  features.push_back(named("norm5", bn()));
  return seq(named("features", seq(std::move(features))), named("relu", relu()), named("avgpool", gap()),
             named("flatten", flatten()), named("classifier", fc(settings.classes)));
}

}  // namespace tr
