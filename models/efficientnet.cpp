#include <algorithm>

#include "inverted_residual.h"
#include "zoo.h"

namespace tr {

namespace {

struct Stage {
  int64_t expansion, kernel, stride, in, out, blocks;
};

BluePrint make_block(const Stage& stage, int64_t in, int64_t stride, double drop_path) {
  const BlockStyle style{bn(), silu()};
  const int64_t expanded = round_channels(in * stage.expansion);
  std::vector<BluePrint> layers;
  if (expanded != in) layers.push_back(conv_norm(expanded, 1, 1, 1, style));
  layers.push_back(conv_norm(expanded, stage.kernel, stride, expanded, style));
  layers.push_back(squeeze_excitation(expanded, std::max<int64_t>(1, in / 4), silu(), sigmoid()));
  layers.push_back(conv_norm(stage.out, 1, 1, 1, style, true));
  BluePrint body = named("block", seq(std::move(layers)));
  if (stride != 1 || in != stage.out) return seq(std::move(body));
  return residual(seq(std::move(body), named("stochastic_depth", stochastic_depth(drop_path))));
}

}  // namespace

BluePrint make_efficientnet_b0(const ModelSettings& settings) {
  const std::vector<Stage> stages{{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                                  {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                                  {6, 3, 1, 192, 320, 1}};
  int64_t blocks = 0, block = 0;
  for (const Stage& stage : stages) blocks += stage.blocks;
  const BlockStyle style{bn(), silu()};
  std::vector<BluePrint> features{conv_norm(stages[0].in, 3, 2, 1, style)};
  for (const Stage& stage : stages) {
    std::vector<BluePrint> layers;
    for (int64_t i = 0; i < stage.blocks; ++i, ++block)
      layers.push_back(
          make_block(stage, i == 0 ? stage.in : stage.out, i == 0 ? stage.stride : 1,
                     settings.drop_path * static_cast<double>(block) / static_cast<double>(blocks)));
    features.push_back(seq(std::move(layers)));
  }
  features.push_back(conv_norm(4 * stages.back().out, 1, 1, 1, style));
  return pooled_classifier(std::move(features), seq(dropout(settings.dropout), fc(settings.classes)));
}

}  // namespace tr
