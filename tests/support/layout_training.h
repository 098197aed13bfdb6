/// Short trainings whose results must not depend on where tensors lie.
#pragma once

#include <string>
#include <vector>

#include "support/session.h"

namespace tr::test {

struct LayoutCase {
  std::string name;
  BluePrint net;
  Shape input;
  bool fused = true;
};
void PrintTo(const LayoutCase& c, std::ostream* out);

/// Fully connected, convolutional with dropout, residual (fused and apart), plain with batch norm, leaky ReLU
/// with average pooling, smooth activations with layer norm and stochastic depth, branches that are
/// concatenated, multiplied and added. Five classes.
std::vector<LayoutCase> layout_cases();

/// The last batches are smaller than the others, validation batches larger.
CompileRequest layout_request(const LayoutCase& c, const Recipe& recipe);
CompiledModel compile_layout(const CompileRequest& request);

/// What a training leaves behind.
struct TrainingTrace {
  std::vector<float> losses, top1;  ///< of each step, evaluation included
  std::vector<int32_t> predictions;
  std::vector<std::byte> parameters, moments, statistics;
  std::vector<float> sums;  ///< of loss, top-1 and top-5 over all samples of all steps
};
/// Six training steps of two shapes over both input buffers, with an evaluation after the third and the last.
TrainingTrace trace_training(Session& session);

}  // namespace tr::test
