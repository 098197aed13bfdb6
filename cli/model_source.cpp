#include "model_source.h"

#include <algorithm>
#include <filesystem>

#include "recipe_arguments.h"
#include "renaissance/core/error.h"
#include "renaissance/models.h"

namespace tr::cli {

namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// A ready network on data of the size it was designed for; those of ImageNet with its mean and deviation.
Recipe ready_recipe(const std::string& name, const std::vector<std::string>& overrides) {
  constexpr int64_t IMAGENET_CLASSES = 1000;
  std::string text = cat("name: ", name, "\nmodel: ", name, "\ndata: {source: synthetic");
  const ModelInput input = model_input(name);
  if (input.classes == IMAGENET_CLASSES && input.channels == 3)
    text += ", mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]";
  return parse_recipe(text + "}\n", name, overrides);
}

Recipe checkpoint_recipe(const StateDict& file, const std::string& path,
                         const std::vector<std::string>& overrides) {
  TR_CHECK(is_checkpoint(file), ValueError,
           cat(path, ": holds weights alone, not the network; give its recipe, and the file as --weights"));
  const CheckpointInfo info = checkpoint_info(file, path);
  Recipe recipe = parse_recipe(info.recipe, path, overrides);
  const auto complete = [](int64_t& value, int64_t otherwise) {
    if (value == 0) value = otherwise;
  };
  complete(recipe.data.classes, info.classes);
  complete(recipe.data.channels, info.channels);
  complete(recipe.data.height, info.height);
  complete(recipe.data.width, info.width);
  return recipe;
}

}  // namespace

ModelSource read_model_source(const std::string& model, const std::vector<std::string>& overrides,
                              const std::string& weights, bool averaged) {
  if (model.ends_with(".safetensors")) {
    StateDict file = read_safetensors(model);
    Recipe recipe = checkpoint_recipe(file, model, overrides);
    return {std::move(recipe),
            weights.empty() ? weights_of(std::move(file), averaged) : read_weights(weights, averaged)};
  }
  const std::vector<std::string> names = model_names();
  const bool is_ready = !exists(model) && std::find(names.begin(), names.end(), model) != names.end();
  Recipe recipe = is_ready ? ready_recipe(model, overrides) : read_recipe({model, overrides});
  TR_CHECK(!weights.empty(), ValueError, cat(model, ": has no weights; name their file with --weights"));
  return {std::move(recipe), read_weights(weights, averaged)};
}

bool is_override(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0 || exists(argument)) return false;
  return argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == equals;
}

}  // namespace tr::cli
