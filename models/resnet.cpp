#include <string>

#include "renaissance/core/error.h"
#include "zoo.h"

namespace tr {

namespace {

constexpr ConvOptions NO_BIAS{.bias = false};

struct BlockShape {
  int64_t in, width, stride;
};

/// 3×3, 3×3.
std::vector<BluePrint> basic_body(const BlockShape& shape) {
  return {named("conv1", conv(shape.width, 3, shape.stride, 1, NO_BIAS)), named("bn1", bn()),
          named("relu1", relu()), named("conv2", conv(shape.width, 3, 1, 1, NO_BIAS)), named("bn2", bn())};
}

/// 1×1, 3×3, 1×1 to four times the width.
std::vector<BluePrint> bottleneck_body(const BlockShape& shape) {
  return {named("conv1", conv(shape.width, 1, 1, 0, NO_BIAS)),
          named("bn1", bn()),
          named("relu1", relu()),
          named("conv2", conv(shape.width, 3, shape.stride, 1, NO_BIAS)),
          named("bn2", bn()),
          named("relu2", relu()),
          named("conv3", conv(4 * shape.width, 1, 1, 0, NO_BIAS)),
          named("bn3", bn())};
}

struct BlockKind {
  std::vector<BluePrint> (*body)(const BlockShape&);
  int64_t expansion;
};
constexpr BlockKind BASIC{basic_body, 1}, BOTTLENECK{bottleneck_body, 4};

/// `blocks` blocks, of which the first has the stride. The ReLU after block i is named beside it, not in
/// a level of its own, so that parameters are called layer1.0.conv1.weight.
BluePrint make_stage(const BlockKind& kind, int64_t in, int64_t width, int64_t blocks, int64_t stride) {
  std::vector<BluePrint> layers;
  const int64_t out = width * kind.expansion;
  for (int64_t i = 0; i < blocks; ++i) {
    const BlockShape shape{i == 0 ? in : out, width, i == 0 ? stride : 1};
    std::optional<BluePrint> projection;
    if (shape.stride != 1 || shape.in != out) projection = seq(conv(out, 1, shape.stride, 0, NO_BIAS), bn());
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

BluePrint make_resnet20(int64_t classes) { return make_resnet(small_stem(), BASIC, 16, {3, 3, 3}, classes); }

BluePrint make_resnet18(int64_t classes) {
  return make_resnet(imagenet_stem(), BASIC, 64, {2, 2, 2, 2}, classes);
}

BluePrint make_resnet34(int64_t classes) {
  return make_resnet(imagenet_stem(), BASIC, 64, {3, 4, 6, 3}, classes);
}

BluePrint make_resnet50(int64_t classes) {
  return make_resnet(imagenet_stem(), BOTTLENECK, 64, {3, 4, 6, 3}, classes);
}

BluePrint make_resnet101(int64_t classes) {
  return make_resnet(imagenet_stem(), BOTTLENECK, 64, {3, 4, 23, 3}, classes);
}

}  // namespace tr
