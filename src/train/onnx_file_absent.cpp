#include "renaissance/core/error.h"
#include "train/onnx_graph.h"

namespace tr {

std::string serialize_onnx(const OnnxGraph&) {
  throw Error(
      ErrorKind::NotSupportedError,
      "ONNX: this build cannot write it, because onnx.proto was not found; install Debian's libonnx-dev and "
      "build again");
}

}  // namespace tr
