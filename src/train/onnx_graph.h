/// A network as ONNX nodes, free of protobuf.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "renaissance/graph/compiler.h"
#include "renaissance/train/checkpoint.h"

namespace tr {

using OnnxAttribute = std::variant<int64_t, float, std::vector<int64_t>>;

struct OnnxNode {
  std::string op, name;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<std::pair<std::string, OnnxAttribute>> attributes;
};

/// A constant: FP32, or INT64 where `integers` is not empty.
struct OnnxConstant {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<float> values;
  std::vector<int64_t> integers;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;  ///< in the order they run
  std::vector<OnnxConstant> constants;
  std::vector<int64_t> input;  ///< C, H, W of `input`, whose N is open
  int64_t classes = 0;         ///< of `logits`
  std::map<std::string, std::string> metadata;
};

/// `model`, compiled without fusion, with the weights of `state`, a state_dict of it in FP32, in which batch
/// norms may be folded. NotSupportedError names the layer.
OnnxGraph onnx_graph(const CompiledModel& model, const StateDict& state, const std::string& name);

/// The bytes of an ONNX file, IR version 8, opset 17. NotSupportedError where the build cannot.
std::string serialize_onnx(const OnnxGraph& graph);

}  // namespace tr
