#include "support/session.h"

#include <algorithm>

#include "data/transform.h"
#include "renaissance/core/error.h"
#include "renaissance/core/philox.h"
#include "renaissance/train/trainer.h"
#include "support/sixteen_bits.h"
#include "train/initialize.h"

namespace tr::test {

BluePrint residual_net() {
  const auto stage = [](int64_t width, int64_t stride) {
    BluePrint body =
        seq(named("conv1", conv(width, 3, stride, 1, {.bias = false})), named("bn1", bn()),
            named("relu", relu()), named("conv2", conv(width, 3, 1, 1, {.bias = false})), named("bn2", bn()));
    BluePrint unit =
        stride == 1 ? residual(body) : residual(body, seq(conv(width, 1, stride, 0, {.bias = false}), bn()));
    return seq(named("0", std::move(unit)), named("relu_out", relu()));
  };
  return seq(named("conv1", conv(4, 3, 1, 1, {.bias = false})), named("bn1", bn()), named("relu", relu()),
             named("layer1", stage(4, 1)), named("layer2", stage(8, 2)), named("gap", gap()), flatten(),
             named("fc", fc(5)));
}

Batch make_batch(const Shape& input, int64_t classes, uint64_t number) {
  Batch batch;
  const Philox random(17);
  const int64_t per_image = input.numel() / input.n();
  for (int64_t n = 0; n < input.n(); ++n) {
    const auto label = static_cast<int32_t>((n + static_cast<int64_t>(number)) % classes);
    batch.labels.push_back(label);
    for (int64_t i = 0; i < per_image; ++i) {
      const auto index = static_cast<uint64_t>(n * per_image + i);
      const uint32_t bits = random.at(RandomPurpose::CROP, static_cast<uint32_t>(number), index)[0];
      const bool stripe = i * classes / per_image == label;
      batch.pixels.push_back(static_cast<uint8_t>(bits % 128 + (stripe ? 127 : 0)));
    }
  }
  return batch;
}

Recipe session_recipe(BackendKind device, Precision precision) {
  Recipe recipe;
  recipe.device = device;
  recipe.precision = precision;
  recipe.optimizer.kind = OptimizerKind::NESTEROV;
  recipe.optimizer.learning_rate = 0.01;
  recipe.optimizer.weight_decay = 1e-4;
  recipe.data.mean = {0.4, 0.5, 0.6};
  recipe.data.std = {0.2, 0.25, 0.3};
  recipe.train.seed = 5;
  return recipe;
}

CompileRequest session_request(BluePrint net, const Shape& input, int64_t classes, const Recipe& recipe) {
  CompileRequest request;
  request.model = std::move(net);
  request.inputs = {input, input, input, input, input, input};
  request.classes = classes;
  request.config.optimizer = recipe.optimizer.kind;
  request.config.precision = recipe.precision;
  request.config.layout = recipe.layout;
  request.recompute = recipe.recompute;
  request.budget_bytes = recipe.budget_bytes;
  request.target = default_target(recipe.device);
  request.target.ranks = recipe.ranks;
  request.target.deterministic = recipe.deterministic;
  set_update_options(recipe, request);
  request.mix_samples = recipe.augment.mixup > 0.0 || recipe.augment.cutmix > 0.0;
  request.schedule.kind = ScheduleKind::CONSTANT;
  request.schedule.base = recipe.optimizer.learning_rate;
  for (const double mean : recipe.data.mean) request.pixel_mean.push_back(static_cast<float>(mean));
  for (const double deviation : recipe.data.std) request.pixel_std.push_back(static_cast<float>(deviation));
  return request;
}

Session::Session(std::shared_ptr<const CompiledModel> model, const Recipe& recipe,
                 const ContextOptions& options)
    : model_(std::move(model)), context_(make_context(model_, options)) {
  initialize(*context_, recipe);
  if (is_amp(recipe.precision))
    context_->capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
}

Session::Session(BluePrint net, const Shape& input, int64_t classes, const Recipe& recipe, bool fused)
    : Session(
          [&] {
            CompileRequest request = session_request(std::move(net), input, classes, recipe);
            request.target.fuse = fused;
            return std::make_shared<const CompiledModel>(
                compile(request, std::make_shared<const Catalog>(make_catalog())));
          }(),
          recipe) {}

const Parameter& Session::parameter(const std::string& name) const {
  const auto found = std::find_if(model_->parameters.begin(), model_->parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  TR_CHECK(found != model_->parameters.end(), IndexError, name);
  return *found;
}

TensorId Session::id(const std::string& name) const {
  const auto found = std::find(model_->tensor_names.begin(), model_->tensor_names.end(), name);
  TR_CHECK(found != model_->tensor_names.end(), IndexError, name);
  return static_cast<TensorId>(found - model_->tensor_names.begin());
}

std::vector<float> Session::read(TensorId tensor_id) {
  const DTensor& from = tensor(tensor_id);
  std::vector<float> values(static_cast<size_t>(from.shape.numel()));
  if (from.dtype != DType::FP32) {
    std::vector<uint16_t> bits(values.size());
    context_->read(0, from.offset, bits.data(), static_cast<int64_t>(2 * bits.size()));
    std::ranges::transform(bits, values.begin(), [&](uint16_t b) { return from_16bit(b, from.dtype); });
    return values;
  }
  context_->read(0, tensor(tensor_id).offset, values.data(),
                 static_cast<int64_t>(values.size() * sizeof(float)));
  return values;
}

void Session::write(TensorId tensor_id, const std::vector<float>& values) {
  context_->write(0, tensor(tensor_id).offset, values.data(),
                  static_cast<int64_t>(values.size() * sizeof(float)));
}

int32_t Session::counter(BaselineId scalar) {
  int32_t value = -1;
  context_->read(0, tensor(scalar).offset, &value, sizeof value);
  return value;
}

std::vector<std::byte> Session::bytes(Region first, Region last) {
  const auto [offset, size] = model_->plan(Variant::TRAIN_BASE).region_range(first, last);
  std::vector<std::byte> all(static_cast<size_t>(size));
  if (size > 0) context_->read(0, offset, all.data(), size);
  return all;
}

void Session::feed(InputBuffer buffer, std::span<const uint8_t> pixels, std::span<const int32_t> labels,
                   Variant variant, const BatchMix& mix) {
  const Shape& input = model_->plan(variant).tensor(INPUT_A_DATA).shape;
  TR_CHECK(std::ssize(pixels) == input.numel() && std::ssize(labels) == input.n(), ShapeError,
           cat("batch of ", pixels.size(), " pixels and ", labels.size(), " labels for ", input));
  context_->wait_input(buffer);
  const InputSlot slot = context_->input(0, buffer);
  std::ranges::copy(labels, slot.labels);
  if (slot.mix != nullptr) *slot.mix = mix;
  if (slot.raw_bytes) {
    std::ranges::copy(pixels, reinterpret_cast<uint8_t*>(slot.data));
    return;
  }
  const auto channels = static_cast<size_t>(input.c());
  std::vector<float> table(256 * channels);
  Transform transform;
  transform.mean = model_->request.pixel_mean;
  transform.std = model_->request.pixel_std;
  fill_lookup_table(transform, input.c(), table);
  std::vector<float> normalized(pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) normalized[i] = table[i % channels * 256 + pixels[i]];
  const PixelBatch batch{reinterpret_cast<std::byte*>(normalized.data()),
                         DType::FP32,
                         input.n(),
                         input.h(),
                         input.w(),
                         input.c()};
  mix_pixels(mix, batch, 0, batch.pairs());
  put_pixels(slot, normalized, input.c());
}

}  // namespace tr::test
