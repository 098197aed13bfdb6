#include "train/recipe_blueprint.h"

#include <gtest/gtest.h>

#include "renaissance/core/error.h"
#include "renaissance/models.h"
#include "renaissance/train/recipe.h"

namespace tr {
namespace {

Recipe parse(const std::string& layers) {
  return parse_recipe("data: {path: d}\nmodel:\n" + layers, "r.yaml");
}

std::string error_of(const std::string& layers) {
  try {
    parse(layers);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::RecipeError);
    return error.what();
  }
  return "";
}

TEST(RecipeBlueprint, ReadsEveryForm) {
  const Recipe recipe = parse(R"(
  layers:
    - conv: {name: conv1, out_channels: 32, kernel: 3, padding: 1, bias: false}
    - bn
    - relu:
    - maxpool: [2, 2]
    - dropout: 0.25
    - repeat: {times: 2, layers: [{fc: {out_features: 5}}]}
    - repeat: {name: stack, times: 2, layers: [relu, bn]}
    - residual: {name: block, layers: [relu], projection: [conv: [8, 1]]}
    - seq: {name: tail, layers: [gap, custom: {mode: 'true', scale: 1e-3, on: yes}]}
)");
  BluePrint custom = op("custom", {{"mode", std::string("true")}, {"scale", 1e-3}, {"on", true}});
  BluePrint fc5 = op("fc", {{"out_features", int64_t{5}}});
  BluePrint conv1 =
      op("conv",
         {{"out_channels", int64_t{32}}, {"kernel", int64_t{3}}, {"padding", int64_t{1}}, {"bias", false}});
  const BluePrint expected =
      seq(named("conv1", conv1), op("bn"), relu(), op("maxpool", {{"#0", int64_t{2}}, {"#1", int64_t{2}}}),
          op("dropout", {{"#0", 0.25}}), seq(fc5, fc5), named("stack", repeat(2, seq(relu(), op("bn")))),
          named("block", residual(seq(relu()), seq(op("conv", {{"#0", int64_t{8}}, {"#1", int64_t{1}}})))),
          named("tail", seq(gap(), custom)));
  EXPECT_EQ(recipe.model.layers, expected);
  EXPECT_EQ(recipe.model.layers.children[0].where, "r.yaml:5");
  EXPECT_EQ(recipe.model.layers.children[1].where, "r.yaml:6");
  EXPECT_EQ(recipe.model.layers.children[7].children[1].children[0].where, "r.yaml:12");
  EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << recipe_to_yaml(recipe);
}

TEST(RecipeBlueprint, ABareListIsTheSameAsLayers) {
  EXPECT_EQ(parse("  - flatten\n  - fc: 10\n").model,
            parse("  layers:\n    - flatten\n    - fc: 10\n").model);
}

TEST(RecipeBlueprint, EveryModelOfTheZooSurvivesWriting) {
  for (const std::string& name : model_names()) {
    Recipe recipe = parse("  name: mlp\n");
    recipe.model.name = "";
    recipe.model.layers = make_model(name, 10);
    EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << name;
  }
}

TEST(RecipeBlueprint, AResidualBlocksProjectionMayHaveAName) {
  const Recipe recipe =
      parse("  - residual: {layers: [fc: 8], projection: {seq: {name: shortcut, layers: [fc: 8, bn]}}}\n");
  const BluePrint fc8 = op("fc", {{"#0", int64_t{8}}});
  EXPECT_EQ(recipe.model.layers, seq(residual(seq(fc8), named("shortcut", seq(fc8, op("bn"))))));
  EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << recipe_to_yaml(recipe);
}

TEST(RecipeBlueprint, Branches) {
  const Recipe recipe = parse(R"(
  layers:
    - branches: {name: cell, layers: [identity, {seq: {name: '.', layers: [{conv: {name: c, out_channels: 8, kernel: 1}}]}}]}
    - branches:
        join: channel_scale
        layers:
          - identity
          - seq: [gap, {conv: [8, 1]}, sigmoid]
)");
  const BluePrint c = named("c", op("conv", {{"out_channels", int64_t{8}}, {"kernel", int64_t{1}}}));
  const BluePrint conv1 = op("conv", {{"#0", int64_t{8}}, {"#1", int64_t{1}}});
  EXPECT_EQ(recipe.model.layers, seq(named("cell", branches("concat", {identity(), without_level(seq(c))})),
                                     branches("channel_scale", {identity(), seq(gap(), conv1, sigmoid())})));
  EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << recipe_to_yaml(recipe);

  EXPECT_EQ(error_of("  - branches: {join: [a], layers: [relu]}\n  - branches: {join: add}\n"
                     "  - branches: {layers: [relu], jion: add}\n"),
            "r.yaml:3: branches: join is a list, expected an operator such as concat\n"
            "r.yaml:4: branches: the key layers is missing\n"
            "r.yaml:5: unknown key 'jion' of branches; did you mean 'join'?");
  EXPECT_EQ(error_of("  - branches: {layers: [fc: {name: a}, fc: {name: a}]}\n"),
            "r.yaml:3: two layers side by side are called 'a'; rename one");
}

TEST(RecipeBlueprint, MistakesNameTheirPlace) {
  EXPECT_EQ(
      error_of("  - conv: {kernel: [3, 3]}\n  - 5: 1\n    bn: 2\n  - repeat: {times: 0, layers: [relu]}\n"
               "  - residual: {layer: [relu]}\n  - seq: {layers: []}\n  - relu: {name: a b}\n  - [relu]\n"),
      "r.yaml:3: conv: 'kernel' takes one value, got a list\n"
      "r.yaml:4: a layer is an operator's name or 'name: attributes', got a map with 2 keys; write '5: "
      "{...}'\n"
      "r.yaml:6: repeat: times is '0', expected an integer >= 1\n"
      "r.yaml:7: unknown key 'layer' of residual; did you mean 'layers'?\n"
      "r.yaml:7: residual: the key layers is missing\n"
      "r.yaml:8: expected a list of layers, got an empty one\n"
      "r.yaml:9: a layer's name is made of letters, digits, '_', '-' and '.', got 'a b'\n"
      "r.yaml:10: a layer is an operator's name or 'name: attributes', got a list");
  EXPECT_EQ(error_of("  layers: 5\n"), "r.yaml:3: expected a list of layers, got '5'");
  EXPECT_EQ(error_of("  - repeat: {layers: [relu]}\n"), "r.yaml:3: repeat: the key times is missing");
}

TEST(RecipeBlueprint, SiblingsMustHaveDifferentNames) {
  EXPECT_EQ(error_of("  - fc: {name: a}\n  - fc: {name: a}\n"),
            "r.yaml:4: two layers side by side are called 'a'; rename one");
  EXPECT_EQ(error_of("  - fc: {name: '1'}\n  - fc: 3\n"),
            "r.yaml:4: two layers side by side are called '1'; rename one");
  EXPECT_EQ(error_of("  - residual: {layers: [fc: {name: downsample}], projection: [relu]}\n"),
            "r.yaml:3: 'downsample' is the name of the block's projection; rename this layer");
}

TEST(RecipeBlueprint, RepeatsThatMultiplyAreBounded) {
  EXPECT_EQ(error_of("  - repeat: {times: 1000, layers: [repeat: {times: 1000, layers: [relu]}]}\n"),
            "r.yaml:3: repeat: more than 100000 layers");
  EXPECT_EQ(error_of("  - repeat: {times: 9223372036854775807, layers: [relu, bn]}\n"),
            "r.yaml:3: repeat: more than 100000 layers");
}

}  // namespace
}  // namespace tr
