/// Trained networks for other programs: state_dicts that torchvision loads strictly, and ONNX.
/// docs/weights.md describes both.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"

namespace tr {

struct ExportOptions {
  bool fold_bn = false;  ///< batch norm into the layer before it, see fold_bn.h
};

/// `weights`, a state_dict, as the recipe's network has it: checked (DataError as
/// Trainer::load_state_dict()), in FP32, in the network's order, with num_batches_tracked (0 where the
/// weights lack it).
StateDict export_state_dict(const Recipe& recipe, const StateDict& weights,
                            const ExportOptions& options = {});

/// The network for inference as ONNX of opset 17: `input` is [N, C, H, W] in FP32 with N of any size,
/// normalized as the recipe's data are, at its validation resolution; `logits` is [N, classes], before the
/// softmax. Layers keep their names, initializers the state_dict's. Written aside and renamed.
/// NotSupportedError for an operator that has no mapping and in a build without ONNX's definition; DataError
/// as above; IoError. Source: https://onnx.ai/onnx/operators/
void export_onnx(const std::filesystem::path& file, const Recipe& recipe, const StateDict& weights,
                 const ExportOptions& options = {});

/// The operators that ONNX export knows.
std::vector<std::string> onnx_operators();

}  // namespace tr
