#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace tr::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::filesystem::path recorded_image(const std::string& name) {
  return std::filesystem::path(TR_SOURCE_DIR) / "tests/reference/images" / name;
}

/// A folder with a trained small network: run/recipe.yaml, run/weights.safetensors.
class Predict : public testing::Test {
 protected:
  Predict() {
    write_file(folder_ / "r.yaml", small_recipe());
    const Outcome trained = run_program(folder_.path(), {"train", "r.yaml", "--quiet", "--run-dir", "run"});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
  Outcome predict(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"predict", "run/recipe.yaml", "--weights", "run/weights.safetensors"});
    return run_program(folder_.path(), arguments);
  }
  void copy_image(const std::string& name, const std::string& to) const {
    std::filesystem::create_directories((folder_ / to).parent_path());
    std::filesystem::copy_file(recorded_image(name), folder_ / to);
  }

  const TempFolder folder_;
};

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_F(Predict, TextAndJsonSayTheSame) {
  copy_image("gray.png", "a.png");
  write_file(folder_ / "names.txt", "shirt\ncoat\nbag\nboot\n");
  const Outcome as_json = predict({"a.png", "--json", "--logits", "--top", "3", "--classes", "names.txt"});
  ASSERT_EQ(as_json.exit_code, 0) << as_json.err;
  const std::vector<json> lines = lines_of(as_json.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["file"], "a.png");
  EXPECT_EQ(lines[0]["logits"].size(), 4u);
  ASSERT_EQ(lines[0]["top"].size(), 3u);
  const json best = lines[0]["top"][0];
  EXPECT_GE(best["probability"], lines[0]["top"][1]["probability"]);
  const std::vector<std::string> names{"shirt", "coat", "bag", "boot"};
  EXPECT_EQ(best["name"], names[best["class"].get<size_t>()]);
  const Outcome text = predict({"a.png", "--classes", "names.txt"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, testing::StartsWith("a.png\n"));
  EXPECT_THAT(text.out,
              HasSubstr(cat(best["class"].get<int>(), "  ", best["name"].get<std::string>(), "\n")));
}

TEST_F(Predict, NamesOfTheRecipe) {
  copy_image("gray.png", "a.png");
  const Outcome outcome = predict({"a.png", "data.class_names=[w, x, y, z]", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(std::string("wxyz"), HasSubstr(lines_of(outcome.out)[0]["top"][0]["name"].get<std::string>()));
}

TEST_F(Predict, DamagedFilesAreNamedAndTheOthersPredicted) {
  copy_image("gray.png", "photos/a.png");
  copy_image("cmyk.jpg", "photos/b/c.JPG");
  write_file(folder_ / "photos/b/d.png", read_file(recorded_image("rgb.png")).substr(0, 90));
  write_file(folder_ / "photos/notes.txt", "no image");
  copy_image("gray.png", "photos/.hidden/a.png");
  const Outcome outcome = predict({"photos", "none.png", "photos/a.png", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["file"], "photos/a.png");
  EXPECT_EQ(lines[1]["file"], "photos/b/c.JPG");
  EXPECT_THAT(lines[2]["error"].get<std::string>(),
              HasSubstr("photos/b/d.png: damaged PNG image: the file is cut short"));
  EXPECT_THAT(lines[3]["error"].get<std::string>(), HasSubstr("none.png: cannot open: No such file"));
  EXPECT_EQ(lines[4]["top"], lines[0]["top"]);
  EXPECT_THAT(outcome.err, HasSubstr("renaissance: photos/b/d.png: damaged PNG image"));
}

TEST_F(Predict, IdxFilesAreTheValidationOfTheRecipe) {
  write_small_idx(folder_ / "idx");
  write_file(folder_ / "i.yaml", idx_recipe(folder_ / "idx", 10));
  ASSERT_EQ(run_program(folder_.path(), {"train", "i.yaml", "--quiet", "--run-dir", "irun"}).exit_code, 0);
  const Outcome evaluated = run_program(
      folder_.path(), {"eval", "irun/recipe.yaml", "--weights", "irun/weights.safetensors", "--json"});
  const Outcome outcome =
      run_program(folder_.path(), {"predict", "irun/recipe.yaml", "--weights", "irun/weights.safetensors",
                                   "idx/t10k-images-idx3-ubyte", "--json", "--top", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[7]["file"], "idx/t10k-images-idx3-ubyte[7]");
  double hits = 0;
  for (size_t i = 0; i < lines.size(); ++i) hits += lines[i]["top"][0]["class"] == i % 10 ? 1 : 0;
  EXPECT_NEAR(hits / 8, json::parse(evaluated.out)["top1"].get<double>(), 1e-6);
}

TEST_F(Predict, ACheckpointCarriesItsRecipe) {
  copy_image("gray.png", "a.png");
  const Outcome outcome =
      run_program(folder_.path(), {"predict", "run/checkpoints/best.safetensors", "a.png", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out)[0]["top"].size(), 4u);
}

TEST_F(Predict, Refusals) {
  copy_image("gray.png", "a.png");
  write_file(folder_ / "names.txt", "one\ntwo\n");
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {{"predict", "run/weights.safetensors", "a.png"}, 2, "holds weights alone, not the network"},
           {{"predict", "r.yaml", "a.png"}, 2, "r.yaml: has no weights; name their file with --weights"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors"}, 2, "no image is given"},
           {{"predict", "r.yaml", "--weights", "none.safetensors", "a.png"}, 1, "none.safetensors"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors", "a.png", "--classes", "names.txt"},
            1,
            "names.txt: has 2 lines, the network has 4 classes"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors", "a.png", "--resize", "4"},
            2,
            "use at least 8"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors", "a.png", "--top", "0"}, 2, "--top"},
           {{"predict", "nothing", "--weights", "run/weights.safetensors", "a.png"},
            1,
            "cannot read recipe 'nothing'"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors", "a.png", "data.clases=4"},
            2,
            "did you mean 'data.classes'?"},
           {{"predict", "r.yaml", "--weights", "run/weights.safetensors", "run"},
            1,
            "holds no .jpg, .jpeg or .png file"}}) {
    const Outcome outcome = run_program(folder_.path(), c.arguments);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << c.text;
    EXPECT_THAT(outcome.err, HasSubstr(c.text));
    EXPECT_EQ(outcome.out, "") << c.text;
  }
}

TEST_F(Predict, FineTuningFromTheCommandLine) {
  const std::string weights = "init=run/weights.safetensors";
  const Outcome refused =
      run_program(folder_.path(), {"train", "r.yaml", weights, "--run-dir", "tuned", "data.classes=3",
                                   "model={layers: [flatten, {fc: 16}, relu, {fc: 3}]}"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("init: run/weights.safetensors: weights do not fit the model"));
  EXPECT_THAT(refused.err, HasSubstr("init_except: [\"3.*\"]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tuned"));
  const Outcome tuned = run_program(
      folder_.path(), {"train", "r.yaml", weights, "init_except=['3.*']", "--run-dir", "tuned",
                       "data.classes=3", "--quiet", "model={layers: [flatten, {fc: 16}, relu, {fc: 3}]}"});
  EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
  // What it started from may be gone afterwards.
  std::filesystem::remove(folder_ / "run/weights.safetensors");
  const Outcome evaluated =
      run_program(folder_.path(), {"eval", "tuned/recipe.yaml", "--weights", "tuned/weights.safetensors"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
}

}  // namespace
}  // namespace tr::test
