#include "zoo.h"

namespace tr {

BluePrint make_vgg16_bn(int64_t classes) {
  std::vector<BluePrint> features;
  const std::vector<std::vector<int64_t>> stages{
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  for (const std::vector<int64_t>& stage : stages) {
    for (const int64_t channels : stage) {
      features.push_back(conv(channels, 3, 1, 1));
      features.push_back(bn());
      features.push_back(relu());
    }
    features.push_back(maxpool(2, 2));
  }
  // torchvision's adaptive pool to 7×7 changes nothing at 224×224, the resolution of this network.
  return seq(
      named("features", seq(std::move(features))), named("avgpool", identity()), named("flatten", flatten()),
      named("classifier", seq(fc(4096), relu(), dropout(0.5), fc(4096), relu(), dropout(0.5), fc(classes))));
}

}  // namespace tr
