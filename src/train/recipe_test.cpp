#include "renaissance/train/recipe.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "renaissance/core/error.h"
#include "train/recipe_keys.h"

namespace tr {
namespace {

namespace fs = std::filesystem;

const std::string MINIMAL = "data: {path: d, classes: 10}\nmodel: resnet18\n";

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(yaml, "r.yaml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::RecipeError);
    return error.what();
  }
  return "";
}

std::string error_of_recipe(const Recipe& recipe) {
  try {
    check_recipe(recipe);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Recipe minimal(const std::vector<std::string>& overrides = {}) {
  return parse_recipe(MINIMAL, "r.yaml", overrides);
}

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TR_SOURCE_DIR) / "recipes"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  return files;
}

TEST(Recipe, EveryKeyReachesItsMember) {
  const Recipe recipe = parse_recipe(R"(
name: all
data:
  source: idx
  path: somewhere
  train_images: a
  train_labels: b
  val_images: c
  val_labels: d
  classes: 7
  train_samples: 11
  val_samples: 12
  channels: 3
  height: 13
  width: 14
  mean: 0.5
  std: [1, 2.5, 3e-1]
  workers: 2
augment: {crop_padding: 4, horizontal_flip: yes}
model: {name: resnet20}
optimizer: {kind: adamw, learning_rate: 1e-3, momentum: 0.8, weight_decay: 1, beta1: 0.5, beta2: 0.6, epsilon: 1e-6, decay_norm_and_bias: true, decoupled_decay: true, clip_norm: 2.5, trust_coefficient: 0.02}
schedule: {kind: step, warmup_epochs: 0.5, warmup_start: 0.1, final_fraction: 0.2, step_epochs: 3, gamma: 0.5}
train: {epochs: 0, batch_size: 1, val_batch_size: 2, resolution: 32, val_resolution: 48, low_resolution: 16, low_resolution_epochs: 3, label_smoothing: 1, init: kaiming, seed: 18446744073709551615, log_interval: 5, max_skipped_steps: 9, freeze: [layer1.*, '*.bias'], freeze_statistics: on, loss_scale: 512, loss_scale_growth_steps: 7}
precision: bf16
device: cuda
ranks: 2
threads: 3
deterministic: off
memory: {layout: linear, budget: 2GiB, recompute: none, workspace_cap: 1GiB}
run_dir: out/run 1
)",
                                     "r.yaml");
  Recipe expected;
  expected.name = "all";
  expected.data = {.source = DataSource::IDX,
                   .path = "somewhere",
                   .train_images = "a",
                   .train_labels = "b",
                   .val_images = "c",
                   .val_labels = "d",
                   .classes = 7,
                   .train_samples = 11,
                   .val_samples = 12,
                   .channels = 3,
                   .height = 13,
                   .width = 14,
                   .mean = {0.5},
                   .std = {1, 2.5, 0.3},
                   .workers = 2};
  expected.augment = {4, true};
  expected.model.name = "resnet20";
  expected.optimizer = {OptimizerKind::ADAMW, 1e-3, 0.8, 1, 0.5, 0.6, 1e-6, true, true, 2.5, 0.02};
  expected.schedule = {ScheduleKind::STEP, 0.5, 0.1, 0.2, 3, 0.5};
  expected.train = {.epochs = 0,
                    .batch_size = 1,
                    .val_batch_size = 2,
                    .resolution = 32,
                    .val_resolution = 48,
                    .low_resolution = 16,
                    .low_resolution_epochs = 3,
                    .label_smoothing = 1,
                    .init = InitScheme::KAIMING,
                    .seed = 18446744073709551615u,
                    .log_interval = 5,
                    .max_skipped_steps = 9,
                    .freeze = {"layer1.*", "*.bias"},
                    .freeze_statistics = true,
                    .loss_scale = 512,
                    .loss_scale_growth_steps = 7};
  expected.precision = Precision::BF16;
  expected.device = BackendKind::CUDA;
  expected.ranks = 2;
  expected.threads = 3;
  expected.deterministic = false;
  expected.layout = Layout::LINEAR;
  expected.budget_bytes = 2ll << 30;
  expected.recompute = Recompute::NONE;
  expected.workspace_cap_bytes = 1ll << 30;
  expected.run_dir = "out/run 1";
  EXPECT_EQ(recipe, expected);
  EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << recipe_to_yaml(recipe);
}

TEST(Recipe, WhatIsNotStatedKeepsItsDefault) {
  Recipe expected;
  expected.data.path = "d";
  expected.data.classes = 10;
  expected.model.name = "resnet18";
  EXPECT_EQ(minimal(), expected);
  EXPECT_EQ(parse_recipe(MINIMAL + "train:\nschedule: {}\n", "r.yaml"), expected);
}

TEST(Recipe, Shorthands) {
  const Recipe recipe =
      parse_recipe("data: synthetic\nmodel: resnet50\noptimizer: adamw\nschedule: cosine\n", "r.yaml");
  EXPECT_EQ(recipe.data.source, DataSource::SYNTHETIC);
  EXPECT_EQ(recipe.model.name, "resnet50");
  EXPECT_EQ(recipe.optimizer.kind, OptimizerKind::ADAMW);
  EXPECT_EQ(recipe.schedule.kind, ScheduleKind::COSINE);
  EXPECT_EQ(
      parse_recipe("data: synthetic\nmodel: [flatten, fc: 10]\n", "r.yaml").model.layers.children.size(), 2u);
}

TEST(Recipe, SyntheticDataTakeTheSizesOfTheModelWhereNoneAreStated) {
  const DataRecipe large = parse_recipe("data: synthetic\nmodel: resnet50\n", "r.yaml").data;
  EXPECT_EQ(large.classes, 1000);
  EXPECT_EQ(large.channels, 3);
  EXPECT_EQ(large.height, 224);
  const DataRecipe small = parse_recipe("data: synthetic\nmodel: [flatten, fc: 10]\n", "r.yaml").data;
  EXPECT_EQ(small.classes, 10);
  EXPECT_EQ(small.channels, 1);
  EXPECT_EQ(small.width, 28);
  EXPECT_GT(small.train_samples, 0);
  const DataRecipe stated =
      parse_recipe(
          "data: {source: synthetic, channels: 5, height: 9}\nmodel: resnet18\ntrain: {resolution: 64}\n",
          "r.yaml")
          .data;
  EXPECT_EQ(stated.channels, 5);
  EXPECT_EQ(stated.height, 9);
  EXPECT_EQ(stated.width, 64);
}

TEST(Recipe, EveryShippedOneParsesAndSurvivesWriting) {
  ASSERT_GE(shipped_recipes().size(), 5u);
  for (const fs::path& file : shipped_recipes()) {
    const Recipe recipe = load_recipe(file);
    EXPECT_EQ(recipe.name, file.stem());
    const Recipe again = parse_recipe(recipe_to_yaml(recipe), "again");
    EXPECT_EQ(again, recipe) << recipe_to_yaml(recipe);
  }
}

TEST(Recipe, DataSyntheticOnAnyShippedRecipeKeepsItsSizes) {
  for (const fs::path& file : shipped_recipes()) {
    Recipe expected = load_recipe(file);
    expected.data.source = DataSource::SYNTHETIC;
    EXPECT_EQ(load_recipe(file, {"data=synthetic"}), expected) << file;
  }
}

TEST(Recipe, OverridesWinOverTheFile) {
  const Recipe recipe = minimal({"train.epochs=3", "train.epochs=4", "data.mean=[0.1]", "optimizer=adam",
                                 "optimizer.learning_rate=0.01", "schedule={kind: step, gamma: 0.5}",
                                 "memory.workspace_cap=512KiB", "run_dir=a=b", "name=night run"});
  EXPECT_EQ(recipe.train.epochs, 4);
  EXPECT_EQ(recipe.data.mean, std::vector<double>{0.1});
  EXPECT_EQ(recipe.data.path, "d");
  EXPECT_EQ(recipe.optimizer.kind, OptimizerKind::ADAM);
  EXPECT_EQ(recipe.optimizer.learning_rate, 0.01);
  EXPECT_EQ(recipe.schedule.kind, ScheduleKind::STEP);
  EXPECT_EQ(recipe.schedule.gamma, 0.5);
  EXPECT_EQ(recipe.workspace_cap_bytes, 512 << 10);
  EXPECT_EQ(recipe.run_dir, "a=b");
  EXPECT_EQ(recipe.name, "night run");
  EXPECT_EQ(minimal({"run_dir=x", "run_dir="}).run_dir, "");
}

TEST(Recipe, AnOverriddenModelReplacesTheOther) {
  const std::string layered = "data: {path: d}\nmodel: [flatten, fc: 10]\n";
  EXPECT_EQ(parse_recipe(layered, "r.yaml", {"model=mlp"}).model.name, "mlp");
  EXPECT_EQ(parse_recipe(layered, "r.yaml", {"model.name=mlp"}).model.layers, BluePrint{});
  EXPECT_EQ(minimal({"model=[flatten, fc: 10]"}).model.name, "");
}

TEST(Recipe, OverridesAloneCanBeTheRecipe) {
  EXPECT_EQ(parse_recipe("", "r.yaml", {"data=synthetic", "model=mlp"}).model.name, "mlp");
}

TEST(Recipe, AllMistakesAreReportedAtOnceWithTheirPlaces) {
  EXPECT_EQ(error_of("data: {path: d}\n"
                     "model: resnet18\n"
                     "train:\n"
                     "  epoch: 3\n"
                     "  batch_size: many\n"
                     "  log_interval: 0\n"
                     "  seed: -1\n"
                     "optimizer:\n"
                     "  lr: 0.1\n"
                     "  momentum: 1.0\n",
                     {"train.epohcs=3", "ranks=0"}),
            "r.yaml:4: unknown key 'train.epoch'; did you mean 'train.epochs'?\n"
            "r.yaml:5: 'train.batch_size' expects an integer, got 'many'\n"
            "r.yaml:7: 'train.seed' expects an integer from 0 to 2^64-1, got '-1'\n"
            "override 'train.epohcs=3': unknown key 'train.epohcs'; did you mean 'train.epochs'?\n"
            "r.yaml:9: unknown key 'optimizer.lr'; did you mean 'optimizer.learning_rate'?\n"
            "r.yaml:10: 'optimizer.momentum' is 1, expected a finite number 0 to below 1\n"
            "r.yaml:6: 'train.log_interval' is 0, expected at least 1\n"
            "override 'ranks=0': 'ranks' is 0, expected at least 1");
}

TEST(Recipe, UnknownKeysAreSuggested) {
  const auto of = [](const std::string& more) { return error_of(MINIMAL + more); };
  EXPECT_EQ(of("train: {epoch: 3}"), "r.yaml:3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_EQ(of("trian: {epochs: 3}"), "r.yaml:3: unknown key 'trian'; did you mean 'train'?");
  EXPECT_EQ(of("epochs: 3"), "r.yaml:3: unknown key 'epochs'; did you mean 'train.epochs'?");
  EXPECT_EQ(of("optimizer: {type: sgd}"),
            "r.yaml:3: unknown key 'optimizer.type'; did you mean 'optimizer.kind'?");
  EXPECT_EQ(of("memory: {qqqqqq: 1}"),
            "r.yaml:3: unknown key 'memory.qqqqqq'; known here: layout, budget, recompute, workspace_cap");
  EXPECT_EQ(error_of(MINIMAL, {"train.epoch=3"}),
            "override 'train.epoch=3': unknown key 'train.epoch'; did you mean 'train.epochs'?");
}

TEST(Recipe, WrongTypes) {
  const auto of = [](const std::string& more) { return error_of(MINIMAL + more); };
  EXPECT_EQ(of("train: {epochs: 2.5}"), "r.yaml:3: 'train.epochs' expects an integer, got '2.5'");
  EXPECT_EQ(of("train: {epochs: '3'}"), "r.yaml:3: 'train.epochs' expects an integer, got the text '3'");
  EXPECT_EQ(of("train: {epochs: [3]}"), "r.yaml:3: 'train.epochs' expects an integer, got a list");
  EXPECT_EQ(of("train: {epochs: }"), "r.yaml:3: 'train.epochs' has no value; give one or leave the key out");
  EXPECT_EQ(of("train: 5"), "r.yaml:3: 'train' expects a map of keys, got '5'");
  EXPECT_EQ(of("train: [epochs]"), "r.yaml:3: 'train' expects a map of keys, got a list");
  EXPECT_EQ(of("deterministic: 2"), "r.yaml:3: 'deterministic' expects true or false, got '2'");
  EXPECT_EQ(of("ranks: 99999999999"), "r.yaml:3: 'ranks' expects an integer, got '99999999999'");
  EXPECT_EQ(of("optimizer: {learning_rate: fast}"),
            "r.yaml:3: 'optimizer.learning_rate' expects a number, got 'fast'");
  EXPECT_EQ(of("memory: {workspace_cap: 3 apples}"),
            "r.yaml:3: 'memory.workspace_cap' expects a size such as 32MiB, 1GiB or a number of bytes, got "
            "'3 apples'");
  EXPECT_EQ(of("optimizer: adamm"),
            "r.yaml:3: 'optimizer.kind' is 'adamm', expected one of: sgd, momentum, nesterov, adam, adamw, "
            "lars, lars_nesterov; did you mean 'adam'?");
  EXPECT_EQ(error_of("data: {path: d, mean: [0.1,\n x]}\nmodel: mlp\n"),
            "r.yaml:2: 'data.mean' expects a list of numbers, got 'x'");
}

TEST(Recipe, ValuesOutOfRange) {
  const auto of = [](const std::string& override) { return error_of(MINIMAL, {override}); };
  EXPECT_EQ(of("train.epochs=0"), "");
  for (const std::string bad : {"train.epochs=-1",
                                "train.batch_size=0",
                                "train.label_smoothing=1.1",
                                "train.resolution=-3",
                                "optimizer.learning_rate=0",
                                "optimizer.learning_rate=.nan",
                                "optimizer.learning_rate=.inf",
                                "optimizer.learning_rate=-1",
                                "optimizer.weight_decay=-1e-4",
                                "optimizer.beta2=1",
                                "optimizer.clip_norm=-1",
                                "optimizer.trust_coefficient=0",
                                "train.loss_scale=0.5",
                                "train.loss_scale_growth_steps=-1",
                                "schedule.warmup_start=2",
                                "schedule.step_epochs=0",
                                "schedule.power=0",
                                "schedule.restart_epochs=0",
                                "schedule.restart_mult=0",
                                "schedule.pct_start=1.5",
                                "schedule.div_factor=0",
                                "schedule.final_div_factor=-1",
                                "augment.random_erasing=2",
                                "augment.erasing_value=.nan",
                                "augment.mixup=-0.2",
                                "augment.cutmix=.inf",
                                "augment.mix_switch=1.5",
                                "augment.mix_probability=-1",
                                "data.std=0",
                                "data.classes=-1",
                                "data.workers=0",
                                "augment.crop_padding=-1",
                                "ranks=0",
                                "threads=-1",
                                "memory.workspace_cap=-1",
                                "train.batch_size=99999999999",
                                "data.mean=.inf",
                                "name=",
                                "name=a/b"})
    EXPECT_EQ(of(bad).find(cat("override '", bad, "': '", bad.substr(0, bad.find('=')), "' is ")), 0u)
        << bad << "\n"
        << of(bad);
}

TEST(Recipe, SchedulesAndMixingAreReadAndWritten) {
  const Recipe recipe = parse_recipe(MINIMAL +
                                         "augment: {random_erasing: 0.25, erasing_area: [0.1, 0.2], "
                                         "erasing_ratio: [0.5, 2], erasing_value: -1, "
                                         "mixup: 0.2, cutmix: 1, mix_switch: 0.3, mix_probability: 0.9}\n"
                                         "schedule: {kind: multi_step, interval: epoch, warmup: constant, "
                                         "warmup_epochs: 1, warmup_start: 0.1, "
                                         "milestones: [2, 4.5], power: 2, restart_epochs: 3, restart_mult: "
                                         "2, pct_start: 0.4, div_factor: 10, "
                                         "final_div_factor: 100, annealing: linear}\n",
                                     "r.yaml");
  Recipe expected = minimal();
  AugmentRecipe& augment = expected.augment;
  augment.random_erasing = 0.25;
  augment.erasing_area = {0.1, 0.2};
  augment.erasing_ratio = {0.5, 2};
  augment.erasing_value = -1;
  augment.mixup = 0.2;
  augment.cutmix = 1;
  augment.mix_switch = 0.3;
  augment.mix_probability = 0.9;
  ScheduleRecipe& schedule = expected.schedule;
  schedule.kind = ScheduleKind::MULTI_STEP;
  schedule.interval = ScheduleInterval::EPOCH;
  schedule.warmup = WarmupKind::CONSTANT;
  schedule.warmup_epochs = 1;
  schedule.warmup_start = 0.1;
  schedule.milestones = {2, 4.5};
  schedule.power = 2;
  schedule.restart_epochs = 3;
  schedule.restart_mult = 2;
  schedule.pct_start = 0.4;
  schedule.div_factor = 10;
  schedule.final_div_factor = 100;
  schedule.annealing = Annealing::LINEAR;
  EXPECT_EQ(recipe, expected);
  EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again"), recipe) << recipe_to_yaml(recipe);
}

TEST(Recipe, SchedulesThatCannotBe) {
  const auto refuses = [](const std::vector<std::string>& overrides, const std::string& text) {
    EXPECT_NE(error_of(MINIMAL, overrides).find(text), std::string::npos) << error_of(MINIMAL, overrides);
  };
  refuses({"schedule=multi_step"}, "'schedule.milestones' is empty; multi_step needs the epochs");
  refuses({"schedule.milestones=[1]"}, "'schedule.milestones' belongs to kind multi_step");
  for (const std::string milestones : {"[3, 2]", "[2, 2]"})
    refuses({"schedule=multi_step", "schedule.milestones=" + milestones},
            "'schedule.milestones' must rise from each value to the next");
  refuses({"schedule=multi_step", "schedule.milestones=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"},
          "'schedule.milestones' has 17 values, expected at most 16");
  refuses({"schedule=one_cycle", "schedule.warmup_epochs=1"},
          "'schedule.warmup_epochs' is 1, but one_cycle rises by itself; set schedule.pct_start");
  refuses({"schedule.warmup=constant", "schedule.warmup_epochs=1"},
          "'schedule.warmup_start' is 0, so the warmup would train with a learning rate of 0");
  refuses({"schedule.interval=epoch", "schedule.warmup_epochs=2"},
          "'schedule.warmup_start' is 0, so the first epoch would train");
  refuses({"augment.erasing_area=0.2"}, "'augment.erasing_area' has 1 values, expected [least, most]");
  refuses({"augment.erasing_ratio=[2, 1]"},
          "'augment.erasing_ratio' is [2, 1], expected the smaller value first");
}

TEST(Recipe, FieldsThatDisagree) {
  EXPECT_EQ(
      error_of("model: mlp\n"),
      "r.yaml: data.path is missing; give the folder of the IDX files, or data.train_images, train_labels, "
      "val_images and val_labels, or 'data: synthetic'");
  EXPECT_EQ(error_of("data: {path: d}\n"),
            "r.yaml: model is missing; give a name such as 'model: resnet18', or model.layers");
  EXPECT_EQ(error_of("data: {path: d}\nmodel: resnet5O\n"),
            "r.yaml:2: model 'resnet5O' is not known; did you mean 'resnet50'?");
  EXPECT_EQ(error_of("data: {path: d}\nmodel:\n  name: mlp\n  layers: [flatten]\n"),
            "r.yaml:4: model has both a name ('mlp') and layers; leave one out");
  EXPECT_EQ(error_of("data: {path: d}\nmodel: {name: resnet18, dropout: 0.1}\n"),
            "r.yaml:2: 'model.dropout' is given, but model 'resnet18' has no such layer; leave it out");
  EXPECT_EQ(error_of("data: {path: d}\nmodel:\n  drop_path: 0.1\n  layers: [flatten]\n"),
            "r.yaml:3: 'model.drop_path' is for ready networks; give it to the layer in model.layers");
  EXPECT_EQ(error_of("data: {path: d, channels: 1, mean: [0.1, 0.2]}\nmodel: mlp\n"),
            "r.yaml:1: 'data.mean' has 2 values, expected 1 or 1 (data.channels)");
  EXPECT_EQ(error_of("data: {path: d, mean: [0.1, 0.2], std: [1, 1, 1]}\nmodel: mlp\n"),
            "r.yaml:1: 'data.std' has 3 values, 'data.mean' has 2; expected one per channel in both");
  EXPECT_EQ(error_of(MINIMAL, {"optimizer={kind: nesterov, momentum: 0}"}).find("override 'optimizer={"), 0u);
}

TEST(Recipe, UpdatesThatMakeNoSense) {
  const auto of = [](const std::vector<std::string>& overrides) { return error_of(MINIMAL, overrides); };
  for (const std::string kind : {"sgd", "momentum", "nesterov", "adamw"})
    EXPECT_EQ(of({"optimizer=" + kind, "optimizer.decoupled_decay=true"}), "") << kind;
  EXPECT_NE(of({"optimizer=adam", "optimizer.decoupled_decay=true"}).find("use kind: adamw in its place"),
            std::string::npos);
  EXPECT_NE(of({"optimizer=lars_nesterov", "optimizer.decoupled_decay=true"})
                .find("'optimizer.decoupled_decay' is true for lars_nesterov"),
            std::string::npos);
  EXPECT_EQ(of({"train.freeze=fc.*", "train.freeze_statistics=true"}), "");
  EXPECT_NE(of({"train.freeze_statistics=true"}).find("'train.freeze' names no parameters"),
            std::string::npos);
}

TEST(Recipe, DuplicateKeysAreRefused) {
  EXPECT_EQ(error_of(MINIMAL + "train:\n  epochs: 1\n  epochs: 2\n"),
            "r.yaml:5: duplicate key 'train.epochs'; first given at r.yaml:4");
  EXPECT_EQ(error_of(MINIMAL + "model: mlp\n"), "r.yaml:3: duplicate key 'model'; first given at r.yaml:2");
}

TEST(Recipe, MalformedYaml) {
  EXPECT_EQ(error_of("data: [1\nmodel: mlp\n").find("r.yaml:2: malformed YAML: "), 0u);
  for (const char* text : {", 2]\nx\n", "}", "]", ",", ", bias: 1}{"})
    EXPECT_EQ(error_of(text).find("r.yaml:1: malformed YAML: "), 0u) << error_of(text);
  for (const char c : {'\0', '\x04', '\x1e', '\x7f'})
    EXPECT_EQ(error_of(std::string("data: idx\n, 2]\n") + c + "x\n<<: {c: 1}\n")
                  .find("r.yaml:3: holds the control character 0x"),
              0u);
  EXPECT_EQ(error_of("- mlp\n"),
            "r.yaml:1: expected a map of sections (data, model, train, ...), got a list");
  EXPECT_EQ(error_of(MINIMAL + "---\nname: b\n"),
            "r.yaml:3: a second YAML document; a recipe is one document");
  EXPECT_EQ(error_of("? [a]\n: 1\n" + MINIMAL), "r.yaml:1: a key must be a name");
  EXPECT_NE(error_of("data: &a [*a]\nmodel: mlp\n"), "");
  EXPECT_NE(error_of(std::string(5000, '[')), "");
  EXPECT_EQ(error_of(MINIMAL, {"train.epochs"}),
            "override 'train.epochs': expected key=value, such as train.epochs=3");
  EXPECT_EQ(error_of(MINIMAL, {"=3"}), "override '=3': expected key=value, such as train.epochs=3");
  EXPECT_EQ(error_of(MINIMAL, {"data.mean=[1"}).find("override 'data.mean=[1': malformed YAML: "), 0u);
}

TEST(Recipe, FilesThatCannotBeRead) {
  const auto kind_of = [](const fs::path& file) {
    try {
      load_recipe(file);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
      return error.kind();
    }
    return ErrorKind::StateError;
  };
  EXPECT_EQ(kind_of("no/such/recipe.yaml"), ErrorKind::IoError);
  EXPECT_EQ(kind_of(fs::path(TR_SOURCE_DIR)), ErrorKind::IoError);
}

TEST(Recipe, PathsAreBytes) {
  Recipe recipe = minimal();
  for (const std::string path : {"/data/füße und \"mehr\"", "a\xff\\b", "# no comment", " lead", "yes",
                                 "0x10", "1e3", "tab\there", "null", "~"}) {
    recipe.data.path = path;
    EXPECT_EQ(parse_recipe(recipe_to_yaml(recipe), "again").data.path, path) << recipe_to_yaml(recipe);
  }
}

TEST(Recipe, SizesInBytes) {
  const auto cap = [](const std::string& text) {
    return minimal({"memory.workspace_cap=" + text}).workspace_cap_bytes;
  };
  EXPECT_EQ(cap("123"), 123);
  EXPECT_EQ(cap("0"), 0);
  EXPECT_EQ(cap("32MiB"), 32 << 20);
  EXPECT_EQ(cap("2 MB"), 2'000'000);
  EXPECT_EQ(cap("7B"), 7);
  EXPECT_NE(error_of(MINIMAL, {"memory.workspace_cap=99999999TiB"}), "");
  EXPECT_NE(error_of(MINIMAL, {"memory.workspace_cap=1.5GiB"}), "");
}

TEST(Recipe, CheckOfOneBuiltInCode) {
  Recipe recipe;
  recipe.data.source = DataSource::SYNTHETIC;
  recipe.model.layers = seq(flatten(), fc(10));
  EXPECT_EQ(error_of_recipe(recipe).find("recipe 'unnamed': 'data.classes' is 0"), 0u);
  recipe.data = {.source = DataSource::SYNTHETIC,
                 .classes = 10,
                 .train_samples = 8,
                 .val_samples = 8,
                 .channels = 1,
                 .height = 4,
                 .width = 4};
  EXPECT_EQ(error_of_recipe(recipe), "");
  recipe.train.batch_size = 0;
  recipe.optimizer.kind = static_cast<OptimizerKind>(99);
  EXPECT_EQ(error_of_recipe(recipe),
            "recipe 'unnamed': 'optimizer.kind' is number 99, expected one of: sgd, momentum, nesterov, "
            "adam, adamw, lars, lars_nesterov\n"
            "recipe 'unnamed': 'train.batch_size' is 0, expected at least 1");
}

TEST(RecipeDocument, ListsEveryKeyOfTheTable) {
  std::ifstream in(fs::path(TR_SOURCE_DIR) / "docs" / "recipes.md");
  std::stringstream text;
  text << in.rdbuf();
  // docs/recipes.md quotes the table; when a key changes, put this text in its place there.
  EXPECT_NE(text.str().find(recipe_reference()), std::string::npos) << recipe_reference();
  for (const RecipeKey& key : recipe_keys()) {
    EXPECT_NE(recipe_reference().find(cat("| `", key.key, "` |")), std::string::npos) << key.key;
    EXPECT_FALSE(key.help.empty()) << key.key;
  }
}

}  // namespace
}  // namespace tr
