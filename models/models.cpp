#include "renaissance/models.h"

#include <array>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "zoo.h"

namespace tr {

namespace {

struct Model {
  std::string_view name;
  BluePrint (*build)(const ModelSettings&);
  ModelInput input;
  std::string_view summary;
  std::optional<double> dropout, drop_path;  ///< as published; nothing where there is no such layer
};

constexpr ModelInput MNIST{1, 28, 28, 10};
constexpr ModelInput IMAGENET{3, 224, 224, 1000};
constexpr std::nullopt_t NONE = std::nullopt;

constexpr std::array MODELS{
    Model{"mlp", make_mlp, MNIST, "fully connected 784-1024-512-256, for 28x28 images", NONE, NONE},
    Model{"cnn", make_cnn, MNIST, "four 3x3 convolutions (32-32-64-64) with batch norm, two pools, fc 128",
          NONE, NONE},
    Model{"resnet20", make_resnet20, MNIST,
          "residual network of 20 layers for small images (widths 16-32-64)", NONE, NONE},
    Model{"resnet18", make_resnet18, IMAGENET, "residual network of 18 layers, basic blocks", NONE, NONE},
    Model{"resnet34", make_resnet34, IMAGENET, "residual network of 34 layers, basic blocks", NONE, NONE},
    Model{"resnet50", make_resnet50, IMAGENET, "residual network of 50 layers, bottlenecks", NONE, NONE},
    Model{"resnet101", make_resnet101, IMAGENET, "residual network of 101 layers, bottlenecks", NONE, NONE},
    Model{"resnet152", make_resnet152, IMAGENET, "residual network of 152 layers, bottlenecks", NONE, NONE},
    Model{"resnext50_32x4d", make_resnext50_32x4d, IMAGENET, "ResNet-50 with bottlenecks in 32 groups", NONE,
          NONE},
    Model{"wide_resnet50_2", make_wide_resnet50_2, IMAGENET, "ResNet-50 with bottlenecks twice as wide", NONE,
          NONE},
    Model{"vgg11", make_vgg11, IMAGENET, "VGG of 11 layers", 0.5, NONE},
    Model{"vgg13", make_vgg13, IMAGENET, "VGG of 13 layers", 0.5, NONE},
    Model{"vgg16", make_vgg16, IMAGENET, "VGG of 16 layers", 0.5, NONE},
    Model{"vgg19", make_vgg19, IMAGENET, "VGG of 19 layers", 0.5, NONE},
    Model{"vgg11_bn", make_vgg11_bn, IMAGENET, "VGG of 11 layers with batch norm", 0.5, NONE},
    Model{"vgg13_bn", make_vgg13_bn, IMAGENET, "VGG of 13 layers with batch norm", 0.5, NONE},
    Model{"vgg16_bn", make_vgg16_bn, IMAGENET, "VGG of 16 layers with batch norm", 0.5, NONE},
    Model{"vgg19_bn", make_vgg19_bn, IMAGENET, "VGG of 19 layers with batch norm", 0.5, NONE},
    Model{"mobilenet_v2", make_mobilenet_v2, IMAGENET, "inverted residuals, ReLU6", 0.2, NONE},
    Model{"mobilenet_v3_small", make_mobilenet_v3_small, IMAGENET,
          "inverted residuals with squeeze-and-excitation, hard swish", 0.2, NONE},
    Model{"mobilenet_v3_large", make_mobilenet_v3_large, IMAGENET,
          "inverted residuals with squeeze-and-excitation, hard swish", 0.2, NONE},
    Model{"densenet121", make_densenet121, IMAGENET, "dense blocks of 6, 12, 24 and 16 layers, growth 32",
          NONE, NONE},
    Model{"squeezenet1_0", make_squeezenet1_0, IMAGENET, "fire modules, fully convolutional", 0.5, NONE},
    Model{"squeezenet1_1", make_squeezenet1_1, IMAGENET, "fire modules, pooled earlier than 1_0", 0.5, NONE},
    Model{"googlenet", make_googlenet, IMAGENET,
          "inception modules with batch norm, no auxiliary classifiers", 0.2, NONE},
    Model{"efficientnet_b0", make_efficientnet_b0, IMAGENET,
          "inverted residuals with squeeze-and-excitation, SiLU", 0.2, 0.2},
    Model{"convnext_tiny", make_convnext_tiny, IMAGENET, "depthwise 7x7 convolutions, layer norm, GELU", NONE,
          0.1},
};

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

namespace {

/// The network's own probability unless another is given.
double probability(const Model& model, std::string_view option, const std::optional<double>& given,
                   const std::optional<double>& own) {
  if (!given) return own.value_or(0.0);
  TR_CHECK(own.has_value(), ValueError,
           cat("model '", model.name, "': ", option, " is given, but the network has none; leave it out"));
  TR_CHECK(*given >= 0.0 && *given <= 1.0, ValueError,
           cat("model '", model.name, "': ", option, " is ", *given, "; it must be from 0 to 1"));
  return *given;
}

}  // namespace

BluePrint make_model(std::string_view name, int64_t classes, const ModelOptions& options) {
  const Model& model = find_model(name);
  TR_CHECK(classes >= 1, ValueError,
           cat("model '", name, "': got ", classes, " classes, expected at least 1"));
  return model.build({classes, probability(model, "dropout", options.dropout, model.dropout),
                      probability(model, "drop_path", options.drop_path, model.drop_path)});
}

ModelOptions published_options(std::string_view name) {
  const Model& model = find_model(name);
  return {model.dropout, model.drop_path};
}

std::string_view model_summary(std::string_view name) { return find_model(name).summary; }

ModelInput model_input(std::string_view name) { return find_model(name).input; }

}  // namespace tr
