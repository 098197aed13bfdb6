#include "renaissance/train/predictor.h"

#include <algorithm>
#include <cstring>

#include "core/sixteen_bits.h"
#include "data/batch_loader.h"
#include "renaissance/train/trainer.h"
#include "train/batch_target.h"
#include "train/initialize.h"
#include "train/state_dict.h"

namespace tr {

namespace {

/// Batch norm does not train on one value of a channel.
constexpr int64_t LEAST_TRAINING_BATCH = 2;

/// Nothing of the training but what inference shares with it.
Recipe inference_recipe(const Recipe& recipe, int64_t batch) {
  Recipe lean;
  lean.name = recipe.name;
  lean.data = recipe.data;
  lean.model = recipe.model;
  lean.train.val_resolution = recipe.train.val_resolution;
  lean.train.resolution =
      recipe.train.val_resolution > 0 ? recipe.train.val_resolution : recipe.train.resolution;
  lean.train.batch_size = LEAST_TRAINING_BATCH;
  lean.train.val_batch_size = batch;
  lean.precision = recipe.precision;
  lean.device = recipe.device;
  lean.threads = recipe.threads;
  lean.deterministic = recipe.deterministic;
  lean.allow_tf32 = recipe.allow_tf32;
  lean.workspace_cap_bytes = recipe.workspace_cap_bytes;
  return lean;
}

DataInfo image_info(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (data.channels > 0 && data.height > 0 && data.width > 0 && data.classes > 0)
    return {0, 0, data.channels, data.height, data.width, data.classes};
  try {
    return data_info(recipe, false);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::RecipeError) throw;
    throw Error(ErrorKind::RecipeError,
                cat("recipe '", recipe.name, "': what the network takes in is not known (", error.what(),
                    "); state data.channels, data.height, data.width and data.classes"));
  }
}

DataInfo inference_info(const Recipe& recipe, int64_t batch) {
  DataInfo info = image_info(recipe);
  info.train_samples = LEAST_TRAINING_BATCH;
  info.val_samples = batch;
  return info;
}

/// The tensor of the network's output in evaluation: what the loss reads.
TensorId logits_id(const CompiledModel& model) {
  const auto loss = static_cast<int>(model.arch.layers.size());
  for (const GraphNode& node : model.graph.part(GraphId::INFERENCE))
    for (const NodeOperand& operand : node.operands)
      if (node.kind == NodeKind::COMPUTE && node.op == loss && operand.port == Port::X) return operand.id;
  throw Error(ErrorKind::StateError, "model: evaluation has no loss that reads its output");
}

}  // namespace

CompileRequest inference_request(const Recipe& recipe, int64_t batch, bool plan_only) {
  return compile_request(inference_recipe(recipe, batch), inference_info(recipe, batch), plan_only);
}

class Predictor::Impl {
 public:
  Impl(const Recipe& recipe, const StateDict& weights, int64_t batch)
      : model_(std::make_shared<const CompiledModel>(compile(
            inference_request(recipe, batch, false), std::make_shared<const Catalog>(make_catalog())))),
        context_(make_context(model_)),
        step_(context_->capture(Variant::VAL_BASE, InputBuffer::A)),
        logits_(model_->plan(Variant::VAL_BASE).tensor(logits_id(*model_))),
        bytes_(static_cast<size_t>(logits_.data_bytes())),
        images_(empty_batch()),
        loader_(images_, false, 0, recipe.data.workers, 1, input().numel() / input().n()) {
    transform_.height = input().h();
    transform_.width = input().w();
    transform_.mean = model_->request.pixel_mean;
    transform_.std = model_->request.pixel_std;
    initialize(*context_, inference_recipe(recipe, batch));
    write_state_dict(*context_, weights);
  }

  const Shape& input() const { return model_->request.inputs[static_cast<size_t>(Variant::VAL_BASE)]; }
  int64_t classes() const { return model_->request.classes; }

  std::vector<float> logits(std::span<const Image> images) {
    put(images);
    context_->wait_input(InputBuffer::A);
    const InputSlot slot = context_->input(0, InputBuffer::A);
    const BatchRequest request{target_of(slot), 0, input().n(), input().n()};
    loader_.start_epoch(0);
    loader_.submit({&request, 1}, transform_);
    loader_.wait();
    if (context_->loads_ahead()) context_->load_input(Variant::VAL_BASE, InputBuffer::A);
    step_->launch();
    context_->synchronize();
    return read(std::ssize(images));
  }

 private:
  Dataset empty_batch() const {
    Dataset batch{input().n(), input().h(), input().w(), input().c(), classes(), {}, {}};
    batch.images.resize(static_cast<size_t>(batch.count * batch.image_bytes()));
    batch.labels.resize(static_cast<size_t>(batch.count));
    return batch;
  }

  void put(std::span<const Image> images) {
    TR_CHECK(std::ssize(images) <= input().n(), ValueError,
             cat("predict: ", images.size(), " images at a time, planned for at most ", input().n()));
    auto to = images_.images.begin();
    for (const Image& image : images) {
      TR_CHECK(
          image.height == input().h() && image.width == input().w() && image.channels == input().c() &&
              std::ssize(image.pixels) == images_.image_bytes(),
          ShapeError,
          cat("predict: image is ", image.height, "x", image.width, "x", image.channels,
              ", the network takes ", input().h(), "x", input().w(), "x", input().c(), "; use fit_image()"));
      to = std::copy(image.pixels.begin(), image.pixels.end(), to);
    }
  }

  /// The first `rows` rows of the logits in FP32.
  std::vector<float> read(int64_t rows) {
    context_->read(0, logits_.offset, bytes_.data(), std::ssize(bytes_));
    std::vector<float> values(static_cast<size_t>(rows * classes()));
    for (int64_t row = 0; row < rows; ++row) {
      float* to = values.data() + row * classes();
      const int64_t first = row * logits_.strides[0];
      if (logits_.dtype == DType::FP32) {
        std::memcpy(to, bytes_.data() + first * static_cast<int64_t>(sizeof(float)),
                    static_cast<size_t>(classes()) * sizeof(float));
        continue;
      }
      std::vector<uint16_t> narrow(static_cast<size_t>(classes()));
      std::memcpy(narrow.data(), bytes_.data() + first * static_cast<int64_t>(sizeof(uint16_t)),
                  narrow.size() * sizeof(uint16_t));
      with_16bit(logits_.dtype, [&](auto type) { widen(type, narrow.data(), to, classes()); });
    }
    return values;
  }

  const std::shared_ptr<const CompiledModel> model_;
  const std::unique_ptr<Context> context_;
  const std::unique_ptr<CapturedStep> step_;
  const DTensor logits_;
  std::vector<std::byte> bytes_;  ///< of the logits
  Dataset images_;
  Transform transform_;
  BatchLoader loader_;  // last: its threads read what is above
};

Predictor::Predictor(const Recipe& recipe, const StateDict& weights, int64_t batch)
    : impl_(std::make_unique<Impl>(recipe, weights, batch)) {}
Predictor::~Predictor() = default;

const Shape& Predictor::input() const { return impl_->input(); }
int64_t Predictor::classes() const { return impl_->classes(); }
std::vector<float> Predictor::logits(std::span<const Image> images) { return impl_->logits(images); }

}  // namespace tr
