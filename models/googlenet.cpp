#include "zoo.h"

namespace tr {

namespace {

BluePrint basic(int64_t out, int64_t kernel, int64_t stride = 1) {
  return seq(named("conv", conv(out, kernel, stride, (kernel - 1) / 2, {.bias = false})),
             named("bn", bn(0.1, 1e-3)), named("relu", relu()));
}

/// Channels of the 1×1 branch, of the two with a 3×3 behind a reduction, and of the one behind the pool.
struct Inception {
  int64_t one, reduced_three, three, reduced_five, five, pooled;
};

BluePrint inception(const Inception& c) {
  return branches("concat", {named("branch1", basic(c.one, 1)),
                             named("branch2", seq(basic(c.reduced_three, 1), basic(c.three, 3))),
                             named("branch3", seq(basic(c.reduced_five, 1), basic(c.five, 3))),
                             named("branch4", seq(maxpool(3, 1, 1), basic(c.pooled, 1)))});
}

BluePrint pool(int64_t kernel) { return maxpool(kernel, 2, 0, true); }

}  // namespace

BluePrint make_googlenet(const ModelSettings& settings) {
  return seq({named("conv1", basic(64, 7, 2)),
              named("maxpool1", pool(3)),
              named("conv2", basic(64, 1)),
              named("conv3", basic(192, 3)),
              named("maxpool2", pool(3)),
              named("inception3a", inception({64, 96, 128, 16, 32, 32})),
              named("inception3b", inception({128, 128, 192, 32, 96, 64})),
              named("maxpool3", pool(3)),
              named("inception4a", inception({192, 96, 208, 16, 48, 64})),
              named("inception4b", inception({160, 112, 224, 24, 64, 64})),
              named("inception4c", inception({128, 128, 256, 24, 64, 64})),
              named("inception4d", inception({112, 144, 288, 32, 64, 64})),
              named("inception4e", inception({256, 160, 320, 32, 128, 128})),
              named("maxpool4", pool(2)),
              named("inception5a", inception({256, 160, 320, 32, 128, 128})),
              named("inception5b", inception({384, 192, 384, 48, 128, 128})),
              named("avgpool", gap()),
              named("flatten", flatten()),
              named("dropout", dropout(settings.dropout)),
              named("fc", fc(settings.classes))});
}

}  // namespace tr
