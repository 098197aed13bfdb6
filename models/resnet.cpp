#include <string>

#include "renaissance/core/error.h"
#include "zoo.h"

namespace tr {

namespace {

constexpr ConvOptions NO_BIAS{.bias = false};

/// `inner` channels inside a bottleneck, in `groups`.
struct BlockShape {
  int64_t width, stride, inner, groups;
};

/// 3×3, 3×3.
std::vector<BluePrint> basic_body(const BlockShape& shape) {
  return {named("conv1", conv(shape.width, 3, shape.stride, 1, NO_BIAS)), named("bn1", bn()),
          named("relu1", relu()), named("conv2", conv(shape.width, 3, 1, 1, NO_BIAS)), named("bn2", bn())};
}

/// 1×1, 3×3, 1×1 to four times the width.
std::vector<BluePrint> bottleneck_body(const BlockShape& shape) {
  return {named("conv1", conv(shape.inner, 1, 1, 0, NO_BIAS)),
          named("bn1", bn()),
          named("relu1", relu()),
          named("conv2", conv(shape.inner, 3, shape.stride, 1, {.bias = false, .groups = shape.groups})),
          named("bn2", bn()),
          named("relu2", relu()),
          named("conv3", conv(4 * shape.width, 1, 1, 0, NO_BIAS)),
          named("bn3", bn())};
}

struct BlockKind {
  std::vector<BluePrint> (*body)(const BlockShape&);
  int64_t expansion;
  int64_t groups = 1, widening = 1;  ///< of a bottleneck: inner channels are widening times the width
};
constexpr BlockKind BASIC{basic_body, 1}, BOTTLENECK{bottleneck_body, 4}, GROUPED{bottleneck_body, 4, 32, 2},
    WIDE{bottleneck_body, 4, 1, 2};

/// `blocks` blocks, of which the first has the stride. The ReLU after block i is named beside it, not in
/// a level of its own, so that parameters are called layer1.0.conv1.weight.
BluePrint make_stage(const BlockKind& kind, int64_t in, int64_t width, int64_t blocks, int64_t stride) {
  std::vector<BluePrint> layers;
  const int64_t out = width * kind.expansion;
  for (int64_t i = 0; i < blocks; ++i) {
    const BlockShape shape{width, i == 0 ? stride : 1, kind.widening * width, kind.groups};
    std::optional<BluePrint> projection;
    if (shape.stride != 1 || (i == 0 && in != out))
      projection = seq(conv(out, 1, shape.stride, 0, NO_BIAS), bn());
    const std::string index = std::to_string(i);
    layers.push_back(named(index, residual(seq(kind.body(shape)), std::move(projection))));
    layers.push_back(named(cat(index, ".relu"), relu()));
  }
  return seq(std::move(layers));
}

/// `stem` is followed by stages of doubling width, all but the first halving the resolution.
BluePrint make_resnet(std::vector<BluePrint> stem, const BlockKind& kind, int64_t width,
                      const std::vector<int64_t>& blocks, int64_t classes) {
  std::vector<BluePrint> layers = std::move(stem);
  int64_t in = width;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    layers.push_back(
        named(cat("layer", stage + 1), make_stage(kind, in, width, blocks[stage], stage == 0 ? 1 : 2)));
    in = width * kind.expansion;
    width *= 2;
  }
  layers.push_back(named("avgpool", gap()));
  layers.push_back(named("flatten", flatten()));
  layers.push_back(named("fc", fc(classes)));
  return seq(std::move(layers));
}

std::vector<BluePrint> imagenet_stem() {
  return {named("conv1", conv(64, 7, 2, 3, NO_BIAS)), named("bn1", bn()), named("relu", relu()),
          named("maxpool", maxpool(3, 2, 1))};
}

std::vector<BluePrint> small_stem() {
  return {named("conv1", conv(16, 3, 1, 1, NO_BIAS)), named("bn1", bn()), named("relu", relu())};
}

}  // namespace

BluePrint make_resnet20(const ModelSettings& settings) {
  return make_resnet(small_stem(), BASIC, 16, {3, 3, 3}, settings.classes);
}

BluePrint make_resnet18(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), BASIC, 64, {2, 2, 2, 2}, settings.classes);
}

BluePrint make_resnet34(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), BASIC, 64, {3, 4, 6, 3}, settings.classes);
}

BluePrint make_resnet50(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), BOTTLENECK, 64, {3, 4, 6, 3}, settings.classes);
}

BluePrint make_resnet101(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), BOTTLENECK, 64, {3, 4, 23, 3}, settings.classes);
}

BluePrint make_resnet152(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), BOTTLENECK, 64, {3, 8, 36, 3}, settings.classes);
}

BluePrint make_resnext50_32x4d(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), GROUPED, 64, {3, 4, 6, 3}, settings.classes);
}

BluePrint make_wide_resnet50_2(const ModelSettings& settings) {
  return make_resnet(imagenet_stem(), WIDE, 64, {3, 4, 6, 3}, settings.classes);
}

}  // namespace tr
