#include "renaissance/models.h"

#include <array>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "zoo.h"

namespace tr {

namespace {

struct Model {
  std::string_view name;
  BluePrint (*build)(int64_t classes);
  ModelInput input;
  std::string_view summary;
};

constexpr ModelInput MNIST{1, 28, 28, 10};
constexpr ModelInput IMAGENET{3, 224, 224, 1000};

constexpr std::array<Model, 8> MODELS{{
    {"mlp", make_mlp, MNIST, "fully connected 784-1024-512-256, for 28x28 images"},
    {"cnn", make_cnn, MNIST, "four 3x3 convolutions (32-32-64-64) with batch norm, two pools, fc 128"},
    {"resnet20", make_resnet20, MNIST, "residual network of 20 layers for small images (widths 16-32-64)"},
    {"resnet18", make_resnet18, IMAGENET, "residual network of 18 layers, basic blocks, torchvision's names"},
    {"resnet34", make_resnet34, IMAGENET, "residual network of 34 layers, basic blocks, torchvision's names"},
    {"resnet50", make_resnet50, IMAGENET, "residual network of 50 layers, bottlenecks, torchvision's names"},
    {"resnet101", make_resnet101, IMAGENET,
     "residual network of 101 layers, bottlenecks, torchvision's names"},
    {"vgg16_bn", make_vgg16_bn, IMAGENET,
     "VGG of 16 layers with batch norm, for 224x224, torchvision's names"},
}};

const Model& find_model(std::string_view name) {
  for (const Model& model : MODELS)
    if (model.name == name) return model;
  const std::string near = nearest_name(name, model_names());
  std::string known;
  for (const Model& model : MODELS) known += cat(known.empty() ? "" : ", ", model.name);
  throw Error(ErrorKind::RecipeError,
              cat("model '", name, "' is not known; ",
                  near.empty() ? cat("use one of ", known) : cat("did you mean '", near, "'?")));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : MODELS) names.emplace_back(model.name);
  return names;
}

BluePrint make_model(std::string_view name, int64_t classes) {
  const Model& model = find_model(name);
  TR_CHECK(classes >= 1, ValueError,
           cat("model '", name, "': got ", classes, " classes, expected at least 1"));
  return model.build(classes);
}

std::string_view model_summary(std::string_view name) { return find_model(name).summary; }

ModelInput model_input(std::string_view name) { return find_model(name).input; }

}  // namespace tr
