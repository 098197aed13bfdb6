/// One builder per network; models.cpp has the table of names. Networks of torchvision have its names,
/// shapes, epsilons and momenta, so that a state_dict goes either way.
#pragma once

#include "renaissance/graph/blueprint.h"

namespace tr {

struct ModelSettings {
  int64_t classes = 1000;
  double dropout = 0.0;    ///< of every dropout layer, where the network has one
  double drop_path = 0.0;  ///< of stochastic depth in the last block, where the network has it
};

/// 784-1024-512-256-classes on 28×28×1.
BluePrint make_mlp(const ModelSettings& settings);
/// Convolutions 32-32-pool-64-64-pool, then 128 features.
BluePrint make_cnn(const ModelSettings& settings);

/// K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", arXiv:1512.03385. The
/// stride of a bottleneck is on its 3×3 convolution.
BluePrint make_resnet20(const ModelSettings& settings);
BluePrint make_resnet18(const ModelSettings& settings);
BluePrint make_resnet34(const ModelSettings& settings);
BluePrint make_resnet50(const ModelSettings& settings);
BluePrint make_resnet101(const ModelSettings& settings);
BluePrint make_resnet152(const ModelSettings& settings);
/// S. Xie et al., "Aggregated residual transformations for deep neural networks", arXiv:1611.05431.
BluePrint make_resnext50_32x4d(const ModelSettings& settings);
/// S. Zagoruyko, N. Komodakis, "Wide residual networks", arXiv:1605.07146.
BluePrint make_wide_resnet50_2(const ModelSettings& settings);

/// K. Simonyan, A. Zisserman, "Very deep convolutional networks for large-scale image recognition",
/// arXiv:1409.1556, configurations A, B, D and E, without and with batch normalization.
BluePrint make_vgg11(const ModelSettings& settings);
BluePrint make_vgg13(const ModelSettings& settings);
BluePrint make_vgg16(const ModelSettings& settings);
BluePrint make_vgg19(const ModelSettings& settings);
BluePrint make_vgg11_bn(const ModelSettings& settings);
BluePrint make_vgg13_bn(const ModelSettings& settings);
BluePrint make_vgg16_bn(const ModelSettings& settings);
BluePrint make_vgg19_bn(const ModelSettings& settings);

/// M. Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", arXiv:1801.04381.
BluePrint make_mobilenet_v2(const ModelSettings& settings);
/// A. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
BluePrint make_mobilenet_v3_small(const ModelSettings& settings);
BluePrint make_mobilenet_v3_large(const ModelSettings& settings);
/// M. Tan, Q. Le, "EfficientNet: rethinking model scaling for convolutional neural networks",
/// arXiv:1905.11946.
BluePrint make_efficientnet_b0(const ModelSettings& settings);

/// G. Huang et al., "Densely connected convolutional networks", arXiv:1608.06993.
BluePrint make_densenet121(const ModelSettings& settings);
/// F. Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", arXiv:1602.07360.
BluePrint make_squeezenet1_0(const ModelSettings& settings);
BluePrint make_squeezenet1_1(const ModelSettings& settings);
/// C. Szegedy et al., "Going deeper with convolutions", arXiv:1409.4842, with batch normalization and without
/// the auxiliary classifiers; as in torchvision, the third branch has kernels of 3, not 5.
BluePrint make_googlenet(const ModelSettings& settings);

/// Z. Liu et al., "A ConvNet for the 2020s", arXiv:2201.03545.
BluePrint make_convnext_tiny(const ModelSettings& settings);

}  // namespace tr
