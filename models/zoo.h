/// One builder per family; models.cpp has the table of names.
#pragma once

#include "renaissance/graph/blueprint.h"

namespace tr {

/// 784-1024-512-256-classes on 28×28×1.
BluePrint make_mlp(int64_t classes);
/// Convolutions 32-32-pool-64-64-pool, then 128 features.
BluePrint make_cnn(int64_t classes);

/// K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", arXiv:1512.03385.
BluePrint make_resnet20(int64_t classes);
/// Parameter names and shapes are torchvision's; the stride of a bottleneck is on its 3×3 convolution.
BluePrint make_resnet18(int64_t classes);
BluePrint make_resnet34(int64_t classes);
BluePrint make_resnet50(int64_t classes);
BluePrint make_resnet101(int64_t classes);

/// K. Simonyan, A. Zisserman, "Very deep convolutional networks for large-scale image recognition",
/// arXiv:1409.1556, configuration D with batch normalization; torchvision's names.
BluePrint make_vgg16_bn(int64_t classes);

}  // namespace tr
