/// Work recorded as a CUDA graph, the way training runs it.
#pragma once

#include <string_view>

#include "ops/support/cuda_owned.h"
#include "renaissance/graph/op_spec.h"

namespace tr {

/// What `enqueue` gives to `stream`, as an executable graph. What `enqueue` throws is passed on; DeviceError
/// beginning with `who` where the work cannot be captured. Either way the stream captures no more, and no
/// error is left behind for the next launch to be blamed with.
Owned<cudaGraphExec_t> capture_graph(cudaStream_t stream, const Call& enqueue, std::string_view who);

}  // namespace tr
