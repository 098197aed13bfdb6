#include "renaissance/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "renaissance/core/error.h"
#include "renaissance/graph/arch_plan.h"
#include "support/expect_error.h"

namespace tr {
namespace {

/// A network for two images of its own size. Lowering refuses two layers of one name.
struct Lowered {
  explicit Lowered(const std::string& name, int64_t classes, const ModelOptions& options = {})
      : arch(lower(make_model(name, classes, options), catalog)),
        shapes(infer_shapes(
            arch, Shape(2, model_input(name).height, model_input(name).width, model_input(name).channels))) {}

  const Shape& output() const { return shapes[static_cast<size_t>(arch.output)]; }
  int64_t count(std::string_view op) const {
    return std::ranges::count_if(arch.layers, [&](const Layer& l) { return l.entry->spec->name() == op; });
  }

  Catalog catalog = make_catalog();
  ArchPlan arch;
  std::vector<Shape> shapes;
};

TEST(Models, EveryOneEndsInItsClasses) {
  for (const std::string& name : model_names()) {
    EXPECT_EQ(Lowered(name, 7).output(), Shape(2, 1, 1, 7)) << name;
    EXPECT_FALSE(model_summary(name).empty()) << name;
  }
}

TEST(Models, ResNet20HasTwentyLayersWithWeights) {
  const Lowered net("resnet20", 10);
  const int64_t projections = 2;
  EXPECT_EQ(net.count("conv") - projections + net.count("fc"), 20);
}

TEST(Models, AnUnknownNameIsRefusedWithTheNearest) {
  test::expect_error(ErrorKind::RecipeError, {"model 'resnet5' is not known", "did you mean 'resnet"},
                     [] { make_model("resnet5", 10); });
  EXPECT_THROW(make_model("mlp", 0), Error);
}

TEST(Models, DropoutIsAnOption) {
  const auto probabilities = [](const Lowered& net) {
    std::vector<double> all;
    for (const Layer& layer : net.arch.layers)
      if (layer.entry->spec->name() == "dropout") all.push_back(layer.attrs.number("probability"));
    return all;
  };
  EXPECT_EQ(probabilities(Lowered("vgg11", 5)), std::vector({0.5, 0.5}));
  EXPECT_EQ(probabilities(Lowered("vgg11", 5, {.dropout = 0.25})), std::vector({0.25, 0.25}));
  test::expect_error(ErrorKind::ValueError, {"model 'resnet18'", "dropout", "has none"},
                     [] { make_model("resnet18", 5, {.dropout = 0.1}); });
  test::expect_error(ErrorKind::ValueError, {"model 'vgg11'", "dropout is 1.5", "from 0 to 1"},
                     [] { make_model("vgg11", 5, {.dropout = 1.5}); });
  test::expect_error(ErrorKind::ValueError, {"model 'vgg11'", "drop_path", "has none"},
                     [] { make_model("vgg11", 5, {.drop_path = 0.1}); });
}

}  // namespace
}  // namespace tr
