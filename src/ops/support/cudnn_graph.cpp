#include "ops/support/cudnn_graph.h"

#include <algorithm>

#include "ops/support/cuda.h"

namespace tr {
namespace {

/// Bytes; every tensor begins at a multiple of 256.
constexpr int64_t ALIGNMENT = 16;

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::FP32:
      return CUDNN_DATA_FLOAT;
    case DType::FP16:
      return CUDNN_DATA_HALF;
    case DType::BF16:
      return CUDNN_DATA_BFLOAT16;
    default:
      throw Error(ErrorKind::TypeError,
                  cat("cuDNN graph: ", dtype_name(dtype), "; fp32, fp16 or bf16 expected"));
  }
}

/// "Not like this": an answer. Everything else that fails is an error.
bool is_unsupported(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

std::vector<cudnnBackendDescriptor_t> raw(const std::vector<CudnnDescriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const CudnnDescriptor& descriptor : descriptors) all.push_back(descriptor.raw());
  return all;
}

CudnnDescriptor engine_of(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.raw();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &place);
  return engine;
}

bool obeys(const CudnnDescriptor& engine, const CudnnRules& rules) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   static_cast<int64_t>(notes.size()), notes.data());
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && rules.deterministic) ||
           (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !rules.tensor_cores);
  });
}

/// "engine 12 13=2 14=0": the engine's index and its knobs.
std::string name_of(const CudnnDescriptor& engine, const CudnnDescriptor& config) {
  int64_t index = 0;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  std::vector<CudnnDescriptor> knobs;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> places = raw(knobs);
  const int64_t count = config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   CUDNN_KNOB_TYPE_COUNTS, places.data());
  std::string name = cat("engine ", index);
  for (int64_t i = 0; i < count; ++i) {
    const CudnnDescriptor& knob = knobs[static_cast<size_t>(i)];
    cudnnBackendKnobType_t type{};
    int64_t value = 0;
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += cat(' ', static_cast<int>(type), '=', value);
  }
  return name;
}

/// The configurations that one heuristic suggests for a finalized operation graph.
std::vector<CudnnDescriptor> suggestions(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  const CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  const cudnnStatus_t status = heuristic.try_finalize();
  if (is_unsupported(status)) return {};
  check_cudnn(status, "cuDNN graph: heuristic");
  int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "cuDNN graph: number of engines");
  if (count == 0) return {};
  std::vector<CudnnDescriptor> configs;
  for (int64_t i = 0; i < count; ++i) configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> places = raw(configs);
  const int64_t found =
      heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, places.data());
  configs.erase(configs.begin() + found, configs.end());
  return configs;
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t handle = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(type, &handle), "cuDNN graph: descriptor");
  handle_ = std::shared_ptr<void>(handle, cudnnBackendDestroyDescriptor);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) const {
  const cudnnStatus_t status = cudnnBackendSetAttribute(raw(), name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    check_cudnn(status, cat("cuDNN graph: attribute ", static_cast<int>(name)));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) const {
  const cudnnBackendDescriptor_t other = value.raw();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, int64_t value) const {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                             void* values) const {
  int64_t count = 0;
  const cudnnStatus_t status = cudnnBackendGetAttribute(raw(), name, type, most, &count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    check_cudnn(status, cat("cuDNN graph: attribute ", static_cast<int>(name)));
  return std::min(count, most);
}

void CudnnDescriptor::finalize() const { check_cudnn(try_finalize(), "cuDNN graph: descriptor"); }

CudnnTensor nhwc_tensor(int64_t id, DType dtype, const Shape& shape, int64_t pixel_stride) {
  const int64_t row = shape.w() * pixel_stride;
  return {id, dtype, {shape.n(), shape.c(), shape.h(), shape.w()}, {shape.h() * row, 1, row, pixel_stride}};
}

CudnnDescriptor CudnnGraph::make(cudnnBackendDescriptorType_t type) {
  kept_.emplace_back(type);
  return kept_.back();
}

CudnnDescriptor CudnnGraph::tensor(const CudnnTensor& tensor) {
  CudnnDescriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(tensor.dtype));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor.dims.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor.strides.data());
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, tensor.is_virtual);
  made.finalize();
  return made;
}

void CudnnGraph::convolution(CudnnConvolutionKind kind, const CudnnConvolution& geometry,
                             const CudnnDescriptor& x, const CudnnDescriptor& w, const CudnnDescriptor& y) {
  /// One kind's descriptor type and attribute names.
  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
  };
  constexpr std::array<Names, 3> NAMES{
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const auto pair = [](int64_t value) { return std::array<int64_t, 2>{value, value}; };
  const CudnnDescriptor convolution = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pair(geometry.padding).data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pair(geometry.padding).data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, pair(geometry.stride).data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, pair(geometry.dilation).data());
  convolution.finalize();

  const Names& names = NAMES.at(static_cast<size_t>(kind));
  const CudnnDescriptor operation(names.type);
  operation.set(names.convolution, convolution);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  operation.finalize();
  operations_.push_back(operation);
}

void CudnnGraph::add(const CudnnDescriptor& a, const CudnnDescriptor& b, const CudnnDescriptor& sum) {
  const CudnnDescriptor pointwise = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  pointwise.finalize();
  const CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, sum);
  operation.finalize();
  operations_.push_back(operation);
}

void CudnnGraph::statistics(const CudnnDescriptor& x, const CudnnDescriptor& sum,
                            const CudnnDescriptor& squares) {
  const CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
  operation.finalize();
  operations_.push_back(operation);
}

std::vector<CudnnEngine> CudnnGraph::engines(cudnnHandle_t handle, const CudnnRules& rules) const {
  const CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const std::vector<cudnnBackendDescriptor_t> operations = raw(operations_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(operations.size()), operations.data());
  const cudnnStatus_t status = graph.try_finalize();
  if (is_unsupported(status)) return {};
  check_cudnn(status, "cuDNN graph: operations");
  std::vector<CudnnEngine> engines;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& config : suggestions(graph, mode)) {
      const CudnnDescriptor engine = engine_of(config);
      if (!obeys(engine, rules)) continue;
      std::string name = name_of(engine, config);
      const bool known = std::any_of(engines.begin(), engines.end(),
                                     [&](const CudnnEngine& other) { return other.name == name; });
      if (!known) engines.push_back({std::move(name), config, graph});
    }
  return engines;
}

Call CudnnGraph::plan(cudnnHandle_t handle, const CudnnEngine& engine, const Pointers& pointers,
                      std::byte* workspace, int64_t workspace_bytes) const {
  const CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) {
    static_cast<void>(cudaGetLastError());  // or the next launch would be blamed
    return nullptr;
  }
  int64_t needed = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &needed);
  if (needed > workspace_bytes) return nullptr;

  std::vector<int64_t> ids;
  std::vector<void*> places;
  for (const auto& [id, pointer] : pointers) {
    ids.push_back(id);
    places.push_back(pointer);
  }
  void* scratch = workspace;
  const CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<int64_t>(ids.size()),
           ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(places.size()),
           places.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize();
  return [graph = *this, engine, handle, plan, pack] {
    check_cudnn(cudnnBackendExecute(handle, plan.raw(), pack.raw()), "cuDNN graph: call");
  };
}

}  // namespace tr
