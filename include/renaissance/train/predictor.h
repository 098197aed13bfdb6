/// A recipe's network with given weights, for inference.
///
///   Predictor predictor(recipe, read_weights("weights.safetensors"), 32);
///   const Image image = fit_image(read_image("cat.jpg", predictor.input().c()), predictor.input().h(),
///                                 predictor.input().w());
///   std::vector<float> logits = predictor.logits({&image, 1});
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "renaissance/data/image.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"

namespace tr {

/// What inference needs of a recipe: its network at the validation resolution, `batch` images at a time,
/// planned with the least of training. Numbers of samples are not looked at; image size and classes are the
/// recipe's, or its data files' where it does not state them.
CompileRequest inference_request(const Recipe& recipe, int64_t batch, bool plan_only);

class Predictor {
 public:
  /// `batch`: the most images at a time. DataError for weights that do not fit, as
  /// Trainer::load_state_dict(); otherwise what compile() and make_context() throw.
  Predictor(const Recipe& recipe, const StateDict& weights, int64_t batch);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  /// [batch, height, width, channels]
  const Shape& input() const;
  int64_t classes() const;
  /// [images, classes], row-major, before the softmax. Pixels are normalized as the recipe says. ShapeError
  /// for images of another size, ValueError for more than the batch.
  std::vector<float> logits(std::span<const Image> images);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr
