#include "ops/support/cuda_graph.h"

#include "ops/support/cuda.h"

namespace tr {

namespace {

/// Of a capture that `enqueue` broke off.
void abandon_capture(cudaStream_t stream) {
  cudaGraph_t abandoned = nullptr;
  cudaStreamEndCapture(stream, &abandoned);
  if (abandoned != nullptr) cudaGraphDestroy(abandoned);
  static_cast<void>(cudaGetLastError());
}

}  // namespace

Owned<cudaGraphExec_t> capture_graph(cudaStream_t stream, const Call& enqueue, std::string_view who) {
  // Relaxed: a kernel's first use may load its module in the middle of a capture.
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), who);
  try {
    enqueue();
  } catch (...) {
    abandon_capture(stream);
    throw;
  }
  const auto graph = make_owned<cudaGraph_t>([&](cudaGraph_t* to) {
    const cudaError_t status = cudaStreamEndCapture(stream, to);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    check_cuda(status, cat(who, ": ending the capture"));
  });
  return make_owned<cudaGraphExec_t>([&](cudaGraphExec_t* to) {
    const cudaError_t status = cudaGraphInstantiate(to, graph.get(), 0);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    check_cuda(status, cat(who, ": instantiating the captured work"));
  });
}

}  // namespace tr
