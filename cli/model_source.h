/// A network with weights, as `predict` and `export` are given it.
#pragma once

#include <string>
#include <vector>

#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"

namespace tr::cli {

struct ModelSource {
  Recipe recipe;
  StateDict weights;  ///< a state_dict
};

/// What `model` is (a recipe, "-" for one on standard input, a checkpoint, which carries its recipe, or a
/// ready network's name) with `overrides`; and the weights of the file `weights`, a state_dict or a
/// checkpoint, which may be empty for a checkpoint. `averaged`: a checkpoint's moving average. ValueError
/// where no weights are given, and for weights alone in place of a recipe.
ModelSource read_model_source(const std::string& model, const std::vector<std::string>& overrides,
                              const std::string& weights, bool averaged);

/// Whether `argument` is an override of a recipe's key, as opposed to a file.
bool is_override(const std::string& argument);

}  // namespace tr::cli
