#include "renaissance/train/export.h"

#include <span>

#include "renaissance/train/fold_bn.h"
#include "renaissance/train/predictor.h"
#include "train/atomic_file.h"
#include "train/onnx_graph.h"
#include "train/state_dict.h"

namespace tr {

namespace {

/// Planned only, and with every layer apart: an export needs names and shapes.
CompiledModel exported_model(const Recipe& recipe) {
  CompileRequest request = inference_request(recipe, 1, true);
  request.target.fuse = false;
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

StateDict weights_for(const CompiledModel& model, const StateDict& weights, const ExportOptions& options) {
  const StateDict state = canonical_state_dict(model, weights);
  return options.fold_bn ? fold_batch_norms(model, state) : state;
}

std::string list_of(std::span<const float> values) {
  std::string text;
  for (const float value : values) text += cat(text.empty() ? "" : ", ", value);
  return text;
}

}  // namespace

StateDict export_state_dict(const Recipe& recipe, const StateDict& weights, const ExportOptions& options) {
  return weights_for(exported_model(recipe), weights, options);
}

void export_onnx(const std::filesystem::path& file, const Recipe& recipe, const StateDict& weights,
                 const ExportOptions& options) {
  const CompiledModel model = exported_model(recipe);
  OnnxGraph graph = onnx_graph(model, weights_for(model, weights, options), recipe.name);
  graph.metadata["mean"] = list_of(model.request.pixel_mean);
  graph.metadata["std"] = list_of(model.request.pixel_std);
  for (const std::string& name : recipe.data.class_names) graph.metadata["class_names"] += name + '\n';
  const std::string bytes = serialize_onnx(graph);
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(bytes)));
  out.commit();
}

}  // namespace tr
