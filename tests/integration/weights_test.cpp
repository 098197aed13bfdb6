// Weights in and out: fine-tuning from a file, state_dicts of other programs, inference, ONNX.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/sixteen_bits.h"
#include "data/dataset.h"
#include "renaissance/models.h"
#include "renaissance/train/export.h"
#include "renaissance/train/predictor.h"
#include "renaissance/train/trainer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/onnx_graph.h"
#include "train/state_dict.h"

namespace tr {
namespace {

using test::expect_error;
using test::TempFolder;

BluePrint small_cnn(int64_t classes) {
  return seq(named("conv1", conv(8, 3, 1, 1, {.bias = false})), named("bn1", bn()), relu(), maxpool(2, 2),
             named("conv2", conv(8, 3, 2, 1)), relu(), flatten(), named("fc", fc(classes)));
}

Recipe small_recipe(int64_t classes = 4) {
  Recipe recipe;
  recipe.name = "small";
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.data.classes = classes;
  recipe.data.train_samples = 24;
  recipe.data.val_samples = 10;
  recipe.data.channels = 3;
  recipe.data.height = recipe.data.width = 10;
  recipe.data.mean = {0.4, 0.5, 0.6};
  recipe.data.std = {0.2};
  recipe.model.layers = small_cnn(classes);
  recipe.train.epochs = 1;
  recipe.train.batch_size = 8;
  recipe.train.seed = 3;
  return recipe;
}

StateDict trained(const Recipe& recipe) {
  Trainer trainer(recipe);
  Observer silent;
  trainer.run(silent);
  return trainer.state_dict();
}

bool same(const StateDict& a, const StateDict& b, const std::string& name) {
  const StateTensor *x = a.find(name), *y = b.find(name);
  return x != nullptr && y != nullptr && x->shape == y->shape && x->data == y->data;
}

StateTensor& tensor(StateDict& state, const std::string& name) {
  for (auto& [key, value] : state.tensors)
    if (key == name) return value;
  throw Error(ErrorKind::ValueError, "no " + name);
}

void remove(StateDict& state, const std::string& part) {
  std::erase_if(state.tensors, [&](const auto& item) { return item.first.find(part) != std::string::npos; });
}

std::vector<float> floats(const StateTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// In 16 bits, as files of other programs are.
template <typename Type>
StateTensor narrowed(const StateTensor& tensor, Type type, const std::string& dtype) {
  const std::vector<float> wide = floats(tensor);
  StateTensor result{dtype, tensor.shape, {}};
  result.data.resize(wide.size() * sizeof(uint16_t));
  narrow(type, wide.data(), reinterpret_cast<uint16_t*>(result.data.data()), std::ssize(wide));
  return result;
}

TEST(InitTest, StartsFromTheFilesWeightsAndStatistics) {
  const TempFolder folder;
  const StateDict state = trained(small_recipe());
  write_safetensors(folder / "w.safetensors", state);
  Recipe recipe = small_recipe();
  recipe.train.seed = 4;
  recipe.init = folder / "w.safetensors";
  const StateDict started = Trainer(recipe).state_dict();
  for (const auto& [name, value] : state.tensors) {
    if (name.ends_with("num_batches_tracked")) continue;
    EXPECT_TRUE(same(state, started, name)) << name;
  }
}

TEST(InitTest, AHeadOfOtherClassesStartsAfresh) {
  const TempFolder folder;
  const StateDict state = trained(small_recipe(4));
  write_safetensors(folder / "w.safetensors", state);
  Recipe recipe = small_recipe(7);
  const StateDict fresh = Trainer(recipe).state_dict();
  recipe.init = folder / "w.safetensors";
  expect_error(ErrorKind::DataError,
               {"init: ", "w.safetensors", "different (2): fc.weight [4,72] instead of [7,72]",
                "fc.bias [4] instead of [7]", "init_except: [\"fc.*\"]"},
               [&] { Trainer refused(recipe); });
  recipe.init_except = {"fc.*"};
  const StateDict started = Trainer(recipe).state_dict();
  for (const char* name : {"conv1.weight", "conv2.bias", "bn1.running_var"})
    EXPECT_TRUE(same(started, state, name)) << name;
  for (const char* name : {"fc.weight", "fc.bias"}) EXPECT_TRUE(same(started, fresh, name)) << name;
  recipe.init_except = {"fd.*"};
  expect_error(ErrorKind::RecipeError, {"init_except: 'fd.*' matches no parameter", "did you mean 'fc.*'?"},
               [&] { Trainer refused(recipe); });
}

TEST(InitTest, ACheckpointServesToo) {
  const TempFolder folder;
  Trainer trainer(small_recipe());
  Observer silent;
  trainer.run(silent);
  write_safetensors(folder / "c.safetensors", trainer.checkpoint());
  Recipe recipe = small_recipe();
  recipe.init = folder / "c.safetensors";
  const StateDict state = trainer.state_dict(), started = Trainer(recipe).state_dict();
  for (const char* name : {"conv1.weight", "fc.bias", "bn1.running_mean"})
    EXPECT_TRUE(same(state, started, name)) << name;
}

TEST(InitTest, WhatTheRecipeRefuses) {
  Recipe recipe = small_recipe();
  recipe.init_except = {"fc.*"};
  test::refuses(ErrorKind::RecipeError, "'init_except' says what not to take from 'init'",
                [&] { check_recipe(recipe); });
  recipe = small_recipe();
  recipe.data.class_names = {"a", "b"};
  test::refuses(ErrorKind::RecipeError, "'data.class_names' has 2 names, expected 4",
                [&] { check_recipe(recipe); });
  recipe = small_recipe();
  recipe.init = "nowhere.safetensors";
  test::refuses(ErrorKind::IoError, "nowhere.safetensors", [&] { Trainer refused(recipe); });
}

TEST(StateDictTest, SixteenBitsAreWidened) {
  const StateDict state = trained(small_recipe());
  Trainer trainer(small_recipe());
  for (const bool half : {true, false}) {
    StateDict other = state;
    for (auto& [name, value] : other.tensors)
      if (value.dtype == "F32")
        value = half ? narrowed(value, Fp16{}, "F16") : narrowed(value, Bf16{}, "BF16");
    remove(other, "num_batches_tracked");
    trainer.load_state_dict(other);
    const StateDict loaded = trainer.state_dict();
    for (const auto& [name, value] : other.tensors) {
      const std::vector<float> got = floats(*loaded.find(name)), whole = floats(*state.find(name));
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], half ? Fp16::widen(Fp16::narrow(whole[i])) : Bf16::widen(Bf16::narrow(whole[i])))
            << name;
    }
  }
}

TEST(StateDictTest, EveryDifferenceIsListed) {
  StateDict state = trained(small_recipe());
  remove(state, "conv1.weight");
  tensor(state, "bn1.bias").dtype = "F64";
  state.tensors.emplace_back("head.weight", StateTensor{});
  Trainer trainer(small_recipe());
  expect_error(ErrorKind::DataError,
               {"missing (1): conv1.weight", "unexpected (1): head.weight",
                "different (1): bn1.bias is F64 instead of F32, F16 or BF16"},
               [&] { trainer.load_state_dict(state); });
}

TEST(StateDictTest, WhatIsWrittenHasEveryNameOfTorchvision) {
  const StateDict state = Trainer(small_recipe()).state_dict();
  const StateTensor* count = state.find("bn1.num_batches_tracked");
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(count->dtype, "I64");
  EXPECT_TRUE(count->shape.empty());
  EXPECT_EQ(state.find("conv1.weight")->shape, (std::vector<int64_t>{8, 3, 3, 3}));
}

/// Mean cross entropy of the recipe's validation data.
double loss_of(Predictor& predictor, const Recipe& recipe, int64_t at_a_time) {
  const Dataset data = make_synthetic(recipe.train.seed, 1, recipe.data.val_samples, recipe.data.height,
                                      recipe.data.width, recipe.data.channels, recipe.data.classes);
  double sum = 0.0;
  for (int64_t first = 0; first < data.count; first += at_a_time) {
    std::vector<Image> images;
    for (int64_t i = first; i < std::min(first + at_a_time, data.count); ++i)
      images.push_back(
          {data.height, data.width, data.channels, {data.image(i), data.image(i) + data.image_bytes()}});
    const std::vector<float> logits = predictor.logits(images);
    const auto classes = static_cast<size_t>(predictor.classes());
    for (size_t i = 0; i < images.size(); ++i) {
      double all = 0.0;
      for (size_t c = 0; c < classes; ++c) all += std::exp(double{logits[i * classes + c]});
      const auto label = static_cast<size_t>(data.label(first + static_cast<int64_t>(i)));
      sum += std::log(all) - double{logits[i * classes + label]};
    }
  }
  return sum / static_cast<double>(data.count);
}

TEST(PredictorTest, SeesWhatValidationSees) {
  const Recipe recipe = small_recipe();
  Trainer trainer(recipe);
  Observer silent;
  trainer.run(silent);
  Predictor predictor(recipe, trainer.state_dict(), 4);
  EXPECT_EQ(predictor.input(), Shape(4, 10, 10, 3));
  EXPECT_NEAR(loss_of(predictor, recipe, 4), trainer.evaluate().loss, 1e-5);
  EXPECT_NEAR(loss_of(predictor, recipe, 3), trainer.evaluate().loss, 1e-5);
}

TEST(PredictorTest, SixteenBits) {
  Recipe recipe = small_recipe();
  const StateDict state = trained(recipe);
  Predictor wide(recipe, state, 5);
  const double want = loss_of(wide, recipe, 5);
  for (const Precision precision : {Precision::BF16, Precision::FP16}) {
    recipe.precision = precision;
    Predictor narrow(recipe, state, 5);
    EXPECT_NEAR(loss_of(narrow, recipe, 5), want, 0.02 * want);
  }
}

TEST(PredictorTest, NeedsNoDataFilesWhereSizesAreStated) {
  const Recipe recipe = small_recipe();
  const StateDict state = Trainer(recipe).state_dict();
  Recipe moved = recipe;
  moved.data.source = DataSource::IDX;
  moved.data.path = "/nowhere";
  Predictor predictor(moved, state, 1);
  EXPECT_EQ(predictor.input(), Shape(1, 10, 10, 3));
  moved.data.width = 0;
  expect_error(ErrorKind::RecipeError,
               {"recipe 'small'", "/nowhere", "state data.channels, data.height, data.width"},
               [&] { Predictor refused(moved, state, 1); });
}

TEST(PredictorTest, TakesTheValidationResolution) {
  Recipe recipe = small_recipe();
  recipe.model.layers = seq(conv(4, 3, 1, 1), gap(), flatten(), fc(4));
  recipe.train.resolution = 8;
  const StateDict state = Trainer(recipe).state_dict();
  EXPECT_EQ(Predictor(recipe, state, 1).input(), Shape(1, 8, 8, 3));
  recipe.train.val_resolution = 12;
  EXPECT_EQ(Predictor(recipe, state, 1).input(), Shape(1, 12, 12, 3));
}

TEST(PredictorTest, Refusals) {
  const Recipe recipe = small_recipe();
  const StateDict state = Trainer(recipe).state_dict();
  Predictor predictor(recipe, state, 1);
  const Image image{10, 10, 3, std::vector<uint8_t>(300)}, other{9, 10, 3, std::vector<uint8_t>(270)};
  test::refuses(ErrorKind::ShapeError, "image is 9x10x3, the network takes 10x10x3", [&] {
    predictor.logits({&other, 1});
  });
  const std::vector<Image> two{image, image};
  test::refuses(ErrorKind::ValueError, "2 images at a time, planned for at most 1",
                [&] { predictor.logits(two); });
  Recipe wrong = recipe;
  wrong.model.layers = seq(flatten(), fc(4));
  test::refuses(ErrorKind::DataError, "weights do not fit the model",
                [&] { Predictor refused(wrong, state, 1); });
}

TEST(ExportTest, StateDictIsCheckedOrderedAndWide) {
  const Recipe recipe = small_recipe();
  const StateDict state = trained(recipe);
  StateDict shuffled = state;
  std::reverse(shuffled.tensors.begin(), shuffled.tensors.end());
  remove(shuffled, "num_batches_tracked");
  tensor(shuffled, "fc.bias") = narrowed(tensor(shuffled, "fc.bias"), Bf16{}, "BF16");
  const StateDict out = export_state_dict(recipe, shuffled);
  ASSERT_EQ(out.tensors.size(), state.tensors.size());
  for (size_t i = 0; i < out.tensors.size(); ++i) EXPECT_EQ(out.tensors[i].first, state.tensors[i].first);
  EXPECT_EQ(out.find("fc.bias")->dtype, "F32");
  EXPECT_EQ(out.find("bn1.num_batches_tracked")->dtype, "I64");
  remove(shuffled, "fc.bias");
  test::refuses(ErrorKind::DataError, "missing (1): fc.bias", [&] { export_state_dict(recipe, shuffled); });
}

TEST(ExportTest, FoldedBatchNormLeavesABias) {
  const Recipe recipe = small_recipe();
  const StateDict out = export_state_dict(recipe, trained(recipe), {.fold_bn = true});
  EXPECT_NE(out.find("conv1.bias"), nullptr);
  EXPECT_EQ(out.find("bn1.weight"), nullptr);
  EXPECT_EQ(out.find("bn1.num_batches_tracked"), nullptr);
}

TEST(OnnxTest, EveryOperatorIsMappedOrNamedHere) {
  const std::set<std::string> no_layers{"softmax_cross_entropy"};  // the loss
  const std::vector<std::string> mapped = onnx_operators();
  std::set<std::string> left(mapped.begin(), mapped.end());
  for (const std::string& name : make_catalog().names())
    EXPECT_EQ(left.erase(name) + no_layers.count(name), 1u)
        << name << " has no mapping in src/train/onnx_graph.cpp";
  EXPECT_TRUE(left.empty()) << *left.begin() << " is no operator";
}

std::vector<std::string> ops_of(const OnnxGraph& graph) {
  std::vector<std::string> ops;
  for (const OnnxNode& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

OnnxGraph graph_of(const Recipe& recipe, bool fold) {
  CompileRequest request = inference_request(recipe, 1, true);
  request.target.fuse = false;
  const CompiledModel model = compile(request, std::make_shared<const Catalog>(make_catalog()));
  return onnx_graph(model, export_state_dict(recipe, Trainer(recipe).state_dict(), {.fold_bn = fold}),
                    "small");
}

TEST(OnnxTest, GraphOfASmallNetwork) {
  const Recipe recipe = small_recipe();
  const OnnxGraph graph = graph_of(recipe, false);
  EXPECT_EQ(ops_of(graph), (std::vector<std::string>{"Conv", "BatchNormalization", "Relu", "MaxPool", "Conv",
                                                     "Relu", "Flatten", "Gemm", "Identity"}));
  EXPECT_EQ(graph.input, (std::vector<int64_t>{3, 10, 10}));
  EXPECT_EQ(graph.classes, 4);
  EXPECT_EQ(
      ops_of(graph_of(recipe, true)),
      (std::vector<std::string>{"Conv", "Relu", "MaxPool", "Conv", "Relu", "Flatten", "Gemm", "Identity"}));
  // Every input is produced before it is read, or is a constant.
  std::set<std::string> known{"input"};
  for (const OnnxConstant& constant : graph.constants) EXPECT_TRUE(known.insert(constant.name).second);
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string& input : node.inputs) EXPECT_TRUE(known.contains(input)) << input;
    EXPECT_TRUE(known.insert(node.output).second) << node.output;
  }
  EXPECT_TRUE(known.contains("logits"));
}

}  // namespace
}  // namespace tr
