#include <string>

#include "inverted_residual.h"
#include "zoo.h"

namespace tr {

namespace {

/// Named inside `features`: the parameters of a block are under its own name, "conv" or "block".
BluePrint residual_where(bool same_shape, const std::string& name, std::vector<BluePrint> layers) {
  BluePrint body = named(name, seq(std::move(layers)));
  return same_shape ? residual(std::move(body)) : seq(std::move(body));
}

// Version 2.

BluePrint v2_block(int64_t in, int64_t out, int64_t stride, int64_t expansion) {
  const BlockStyle style{bn(), relu6()};
  std::vector<BluePrint> layers;
  if (expansion != 1) layers.push_back(conv_norm(expansion * in, 1, 1, 1, style));
  layers.push_back(conv_norm(expansion * in, 3, stride, expansion * in, style));
  layers.push_back(conv(out, 1, 1, 0, {.bias = false}));
  layers.push_back(bn());
  return residual_where(stride == 1 && in == out, "conv", std::move(layers));
}

// Version 3.

struct V3Block {
  int64_t in, kernel, expanded, out;
  bool squeeze, hard_swish;
  int64_t stride;
};

BluePrint v3_norm() { return bn(0.01, 1e-3); }

BluePrint v3_block(const V3Block& block) {
  const BlockStyle style{v3_norm(), block.hard_swish ? hardswish() : relu()};
  std::vector<BluePrint> layers;
  if (block.expanded != block.in) layers.push_back(conv_norm(block.expanded, 1, 1, 1, style));
  layers.push_back(conv_norm(block.expanded, block.kernel, block.stride, block.expanded, style));
  if (block.squeeze)
    layers.push_back(
        squeeze_excitation(block.expanded, round_channels(block.expanded / 4), relu(), hardsigmoid()));
  layers.push_back(conv_norm(block.out, 1, 1, 1, style, true));
  return residual_where(block.stride == 1 && block.in == block.out, "block", std::move(layers));
}

BluePrint make_v3(const ModelSettings& settings, const std::vector<V3Block>& blocks, int64_t hidden) {
  const BlockStyle style{v3_norm(), hardswish()};
  std::vector<BluePrint> features{conv_norm(blocks[0].in, 3, 2, 1, style)};
  for (const V3Block& block : blocks) features.push_back(v3_block(block));
  features.push_back(conv_norm(6 * blocks.back().out, 1, 1, 1, style));
  return pooled_classifier(std::move(features),
                           seq(fc(hidden), hardswish(), dropout(settings.dropout), fc(settings.classes)));
}

}  // namespace

BluePrint make_mobilenet_v2(const ModelSettings& settings) {
  struct Stage {
    int64_t expansion, channels, blocks, stride;
  };
  const std::vector<Stage> stages{{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const BlockStyle style{bn(), relu6()};
  int64_t in = 32;
  std::vector<BluePrint> features{conv_norm(in, 3, 2, 1, style)};
  for (const Stage& stage : stages)
    for (int64_t i = 0; i < stage.blocks; ++i) {
      features.push_back(v2_block(in, stage.channels, i == 0 ? stage.stride : 1, stage.expansion));
      in = stage.channels;
    }
  features.push_back(conv_norm(1280, 1, 1, 1, style));
  return pooled_classifier(std::move(features), seq(dropout(settings.dropout), fc(settings.classes)));
}

BluePrint make_mobilenet_v3_small(const ModelSettings& settings) {
  return make_v3(settings,
                 {{16, 3, 16, 16, true, false, 2},
                  {16, 3, 72, 24, false, false, 2},
                  {24, 3, 88, 24, false, false, 1},
                  {24, 5, 96, 40, true, true, 2},
                  {40, 5, 240, 40, true, true, 1},
                  {40, 5, 240, 40, true, true, 1},
                  {40, 5, 120, 48, true, true, 1},
                  {48, 5, 144, 48, true, true, 1},
                  {48, 5, 288, 96, true, true, 2},
                  {96, 5, 576, 96, true, true, 1},
                  {96, 5, 576, 96, true, true, 1}},
                 1024);
}

BluePrint make_mobilenet_v3_large(const ModelSettings& settings) {
  return make_v3(settings,
                 {{16, 3, 16, 16, false, false, 1},
                  {16, 3, 64, 24, false, false, 2},
                  {24, 3, 72, 24, false, false, 1},
                  {24, 5, 72, 40, true, false, 2},
                  {40, 5, 120, 40, true, false, 1},
                  {40, 5, 120, 40, true, false, 1},
                  {40, 3, 240, 80, false, true, 2},
                  {80, 3, 200, 80, false, true, 1},
                  {80, 3, 184, 80, false, true, 1},
                  {80, 3, 184, 80, false, true, 1},
                  {80, 3, 480, 112, true, true, 1},
                  {112, 3, 672, 112, true, true, 1},
                  {112, 5, 672, 160, true, true, 2},
                  {160, 5, 960, 160, true, true, 1},
                  {160, 5, 960, 160, true, true, 1}},
                 1280);
}

}  // namespace tr
