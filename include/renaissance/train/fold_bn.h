/// Batch norm folded into the layer before it, for inference. With running statistics it is one affine map
/// per channel, which a convolution or fully connected layer can take into its weight and bias:
///   s = gamma / sqrt(var + epsilon)      weight' = s * weight      bias' = beta + s * (bias - mean)
/// Legal where batch norm is the only reader of that layer's output and no activation lies between them.
/// Source: B. Jacob et al., "Quantization and training of neural networks for efficient
/// integer-arithmetic-only inference", CVPR 2018, section 3.2.
#pragma once

#include <string>
#include <vector>

#include "renaissance/graph/compiler.h"
#include "renaissance/train/checkpoint.h"

namespace tr {

/// One batch norm that its predecessor can take in.
struct FoldableBatchNorm {
  std::string layer;  ///< of the convolution or fully connected layer: "layer1.0.conv1"
  std::string bn;     ///< of the batch norm: "layer1.0.bn1"
  double epsilon = 0.0;
};

/// Every pair of `model` that may be folded, in the order of its layers.
std::vector<FoldableBatchNorm> foldable_batch_norms(const CompiledModel& model);

/// `state`, a state_dict of `model` in torchvision's names and shapes, with those pairs folded:
/// <layer>.weight is scaled, <layer>.bias is added behind it or changed, and the tensors of <bn> are gone.
/// Batch norms that cannot be folded keep theirs. Computed in double, rounded once. DataError where a tensor
/// of a pair is missing, is not F32 or does not fit the others.
StateDict fold_batch_norms(const CompiledModel& model, const StateDict& state);

}  // namespace tr
