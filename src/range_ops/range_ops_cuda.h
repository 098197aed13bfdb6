/// RANGE nodes on CUDA, bound to the one rank's arena on the card.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "renaissance/graph/compiler.h"

namespace tr {

/// One call of a captured step with the name it has in profiles and errors, and the bytes it moves. It
/// enqueues on the stream it was bound to; DeviceError with its name where that fails.
struct RangeCall {
  std::string name;
  Call call;
  int64_t bytes = 0;
};

/// The calls that do what `nodes` say, in order; nothing for ranges without bytes. The nodes that end a
/// training step become two kernels (training_tail.h), and those of norms where they are taken, more
/// where parameters come in many pieces, and one for averages: then
/// gradients are unscaled, and under AMP widened, on their way into the update, and the FP32 gradients in the
/// arena keep what they held: the weights' are not written, the biases' stay scaled. The 16-bit copies are
/// written with their masters, so they must have been cast once before the first step. RANGE_H2D_COPY_* nodes
/// are the backend's own and are passed over. NotSupportedError, naming the node, for collectives, since this
/// backend runs one rank, and for operations that no backend offers.
std::vector<RangeCall> bind_ranges_cuda(const std::vector<const GraphNode*>& nodes,
                                        const CompiledModel& model, const MemoryPlan& plan, std::byte* base,
                                        InputBuffer buffer, cudaStream_t stream);

}  // namespace tr
