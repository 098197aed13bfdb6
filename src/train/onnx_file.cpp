// Protobuf's part of ONNX export. A build without onnx.proto has onnx_file_absent.cpp instead.
#include <onnx.pb.h>

#include <limits>

#include "renaissance/core/error.h"
#include "train/onnx_graph.h"

namespace tr {

namespace {

constexpr int64_t IR_VERSION = 8, OPSET = 17;  // of ONNX 1.12

void put(const std::pair<std::string, OnnxAttribute>& from, onnx::AttributeProto& to) {
  to.set_name(from.first);
  if (const auto* integer = std::get_if<int64_t>(&from.second)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*integer);
  } else if (const auto* number = std::get_if<float>(&from.second)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*number);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (const int64_t item : std::get<std::vector<int64_t>>(from.second)) to.add_ints(item);
  }
}

void put(const OnnxNode& from, onnx::NodeProto& to) {
  to.set_op_type(from.op);
  to.set_name(from.name);
  for (const std::string& input : from.inputs) to.add_input(input);
  to.add_output(from.output);
  for (const auto& attribute : from.attributes) put(attribute, *to.add_attribute());
}

void put(const OnnxConstant& from, onnx::TensorProto& to) {
  to.set_name(from.name);
  for (const int64_t dim : from.dims) to.add_dims(dim);
  if (from.integers.empty()) {
    to.set_data_type(onnx::TensorProto::FLOAT);
    to.set_raw_data(from.values.data(), from.values.size() * sizeof(float));
  } else {
    to.set_data_type(onnx::TensorProto::INT64);
    to.set_raw_data(from.integers.data(), from.integers.size() * sizeof(int64_t));
  }
}

/// FP32 with an open first dim.
void describe(const std::string& name, const std::vector<int64_t>& dims, onnx::ValueInfoProto& to) {
  to.set_name(name);
  onnx::TypeProto::Tensor& tensor = *to.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

std::string serialize_onnx(const OnnxGraph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(IR_VERSION);
  model.set_producer_name("renaissance");
  model.set_producer_version(TR_VERSION);
  model.add_opset_import()->set_version(OPSET);
  for (const auto& [key, value] : graph.metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::GraphProto& to = *model.mutable_graph();
  to.set_name(graph.name);
  describe("input", graph.input, *to.add_input());
  describe("logits", {graph.classes}, *to.add_output());
  for (const OnnxNode& node : graph.nodes) put(node, *to.add_node());
  for (const OnnxConstant& constant : graph.constants) put(constant, *to.add_initializer());
  TR_CHECK(model.ByteSizeLong() <= size_t{std::numeric_limits<int32_t>::max()}, NotSupportedError,
           cat("ONNX: the network takes ", model.ByteSizeLong(), " bytes, one file holds at most 2 GiB"));
  return model.SerializeAsString();
}

}  // namespace tr
