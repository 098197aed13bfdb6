#include "zoo.h"

namespace tr {

namespace {

/// Few channels, seen by kernels of 1 and of 3.
BluePrint fire(int64_t squeezed, int64_t expanded) {
  return seq(named("squeeze", conv(squeezed, 1)), named("squeeze_activation", relu()),
             named(std::string(NO_LEVEL),
                   branches("concat", {without_level(seq(named("expand1x1", conv(expanded, 1)),
                                                         named("expand1x1_activation", relu()))),
                                       without_level(seq(named("expand3x3", conv(expanded, 3, 1, 1)),
                                                         named("expand3x3_activation", relu())))})));
}

BluePrint pool() { return maxpool(3, 2, 0, true); }

BluePrint make_squeezenet(const ModelSettings& settings, std::vector<BluePrint> features) {
  return seq(named("features", seq(std::move(features))),
             named("classifier", seq(dropout(settings.dropout), conv(settings.classes, 1), relu(), gap())),
             named("flatten", flatten()));
}

}  // namespace

BluePrint make_squeezenet1_0(const ModelSettings& settings) {
  return make_squeezenet(settings,
                         {conv(96, 7, 2), relu(), pool(), fire(16, 64), fire(16, 64), fire(32, 128), pool(),
                          fire(32, 128), fire(48, 192), fire(48, 192), fire(64, 256), pool(), fire(64, 256)});
}

BluePrint make_squeezenet1_1(const ModelSettings& settings) {
  return make_squeezenet(settings,
                         {conv(64, 3, 2), relu(), pool(), fire(16, 64), fire(16, 64), pool(), fire(32, 128),
                          fire(32, 128), pool(), fire(48, 192), fire(48, 192), fire(64, 256), fire(64, 256)});
}

}  // namespace tr
