#include "zoo.h"

namespace tr {

namespace {

void add_conv(std::vector<BluePrint>& layers, int64_t channels) {
  layers.push_back(conv(channels, 3, 1, 1, {.bias = false}));
  layers.push_back(bn());
  layers.push_back(relu());
}

}  // namespace

BluePrint make_cnn(const ModelSettings& settings) {
  std::vector<BluePrint> features;
  for (const int64_t channels : {32, 64}) {
    add_conv(features, channels);
    add_conv(features, channels);
    features.push_back(maxpool(2, 2));
  }
  return seq(named("features", seq(std::move(features))), named("flatten", flatten()),
             named("classifier", seq(fc(128), relu(), fc(settings.classes))));
}

}  // namespace tr
