#include <algorithm>

#include "zoo.h"

namespace tr {

namespace {

/// Convolutions of 3×3 in each of the five stages.
using StageLengths = std::vector<int64_t>;

BluePrint make_vgg(const ModelSettings& settings, const StageLengths& lengths, bool normalized) {
  constexpr int64_t WIDEST = 512;
  std::vector<BluePrint> features;
  int64_t channels = 64;
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      features.push_back(conv(channels, 3, 1, 1));
      if (normalized) features.push_back(bn());
      features.push_back(relu());
    }
    features.push_back(maxpool(2, 2));
    channels = std::min(2 * channels, WIDEST);
  }
  const BluePrint drop = dropout(settings.dropout);
  return seq(named("features", seq(std::move(features))), named("avgpool", adaptive_avgpool(7)),
             named("flatten", flatten()),
             named("classifier", seq(fc(4096), relu(), drop, fc(4096), relu(), drop, fc(settings.classes))));
}

const StageLengths A{1, 1, 2, 2, 2}, B{2, 2, 2, 2, 2}, D{2, 2, 3, 3, 3}, E{2, 2, 4, 4, 4};

}  // namespace

BluePrint make_vgg11(const ModelSettings& settings) { return make_vgg(settings, A, false); }
BluePrint make_vgg13(const ModelSettings& settings) { return make_vgg(settings, B, false); }
BluePrint make_vgg16(const ModelSettings& settings) { return make_vgg(settings, D, false); }
BluePrint make_vgg19(const ModelSettings& settings) { return make_vgg(settings, E, false); }
BluePrint make_vgg11_bn(const ModelSettings& settings) { return make_vgg(settings, A, true); }
BluePrint make_vgg13_bn(const ModelSettings& settings) { return make_vgg(settings, B, true); }
BluePrint make_vgg16_bn(const ModelSettings& settings) { return make_vgg(settings, D, true); }
BluePrint make_vgg19_bn(const ModelSettings& settings) { return make_vgg(settings, E, true); }

}  // namespace tr
