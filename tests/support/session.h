/// A compiled model in a context, with its tensors by name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "renaissance/backend/backend.h"
#include "renaissance/train/recipe.h"

namespace tr::test {

/// Two stages with a projection, between a convolution and the head: the network of residual_training.json.
BluePrint residual_net();

struct Batch {
  std::vector<uint8_t> pixels;  ///< dense NHWC
  std::vector<int32_t> labels;
};
/// Noise with a stripe at a place that tells the class, so that there is something to learn.
Batch make_batch(const Shape& input, int64_t classes, uint64_t number);

/// Of a short training of residual_net() on make_batch()'s batches.
Recipe session_recipe(BackendKind device, Precision precision);

/// Backend, precision, ranks, optimizer, memory, seed and pixel normalization are the recipe's; the
/// rate is constant. Every variant has `input`.
CompileRequest session_request(BluePrint net, const Shape& input, int64_t classes, const Recipe& recipe);

class Session {
 public:
  /// Of session_request().
  Session(BluePrint net, const Shape& input, int64_t classes, const Recipe& recipe, bool fused = true);
  /// `recipe` says the first values only.
  Session(std::shared_ptr<const CompiledModel> model, const Recipe& recipe,
          const ContextOptions& options = {});

  Context& context() { return *context_; }
  const CompiledModel& model() const { return *model_; }
  const Parameter& parameter(const std::string& name) const;
  const DTensor& tensor(TensorId id) const { return model_->plan(Variant::TRAIN_BASE).tensor(id); }
  TensorId id(const std::string& name) const;

  /// Dense tensors, of FP32 or, to be read, of 16 bits.
  std::vector<float> read(TensorId tensor_id);
  void write(TensorId tensor_id, const std::vector<float>& values);
  float number(BaselineId scalar) { return read(scalar)[0]; }
  int32_t counter(BaselineId scalar);
  /// Bytes of the regions from `first` to `last`.
  std::vector<std::byte> bytes(Region first, Region last);

  /// Puts a batch where the loader would, normalized where the backend does not do that itself. `pixels` are
  /// dense NHWC of the variant's shape. `mix`: where the recipe mixes.
  void feed(InputBuffer buffer, std::span<const uint8_t> pixels, std::span<const int32_t> labels,
            Variant variant = Variant::TRAIN_BASE, const BatchMix& mix = {});

 private:
  std::shared_ptr<const CompiledModel> model_;
  std::unique_ptr<Context> context_;
};

}  // namespace tr::test
