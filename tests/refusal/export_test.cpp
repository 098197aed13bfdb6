#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"
#include "renaissance/train/checkpoint.h"

namespace tr::test {
namespace {

using testing::HasSubstr;

class Export : public testing::Test {
 protected:
  Export() {
    write_file(
        folder_ / "r.yaml",
        "name: small\nthreads: 1\n"
        "data: {source: synthetic, classes: 4, train_samples: 20, val_samples: 6, channels: 1, height: 8, "
        "width: 8}\n"
        "model: {layers: [{conv: [4, 3, 1, 1]}, bn, relu, gap, flatten, {fc: 4}]}\n"
        "train: {epochs: 1, batch_size: 10}\n");
    const Outcome trained = run_program(folder_.path(), {"train", "r.yaml", "--quiet", "--run-dir", "run"});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
  Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "export");
    return run_program(folder_.path(), arguments);
  }

  const TempFolder folder_;
};

TEST_F(Export, StateDictIsThatOfTheTraining) {
  const Outcome outcome = run({"r.yaml", "--weights", "run/weights.safetensors", "--out", "out.safetensors"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_EQ(read_file(folder_ / "out.safetensors"), read_file(folder_ / "run/weights.safetensors"));
  ASSERT_EQ(run({"run/checkpoints/best.safetensors", "--out", "best.safetensors"}).exit_code, 0);
  EXPECT_NE(read_safetensors(folder_ / "best.safetensors").find("1.running_var"), nullptr);
}

TEST_F(Export, FoldedWeightsAndOnnxAreWritten) {
  const Outcome outcome =
      run({"r.yaml", "--weights", "run/weights.safetensors", "--fold-bn", "--out", "out.safetensors"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_safetensors(folder_ / "out.safetensors").find("1.weight"), nullptr);
  const Outcome onnx = run({"r.yaml", "--weights", "run/weights.safetensors", "--onnx", "out.onnx"});
  if (onnx.exit_code != 0) {
    EXPECT_EQ(onnx.exit_code, 2);
    EXPECT_THAT(onnx.err, HasSubstr("install Debian's libonnx-dev"));
    return;
  }
  const std::string bytes = read_file(folder_ / "out.onnx");
  for (const char* part : {"renaissance", "BatchNormalization", "GlobalAveragePool", "5.weight", "logits"})
    EXPECT_THAT(bytes, HasSubstr(part));
}

TEST_F(Export, Refusals) {
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {{"r.yaml", "--weights", "run/weights.safetensors"},
            2,
            "nothing to write; name a file with --out or --onnx"},
           {{"r.yaml", "--out", "o.safetensors"}, 2, "r.yaml: has no weights"},
           {{"run/weights.safetensors", "--out", "o.safetensors"}, 2, "holds weights alone"},
           {{"cnn", "--weights", "run/weights.safetensors", "--out", "o.safetensors"},
            1,
            "weights do not fit the model"},
           {{"r.yaml", "--weights", "run/weights.safetensors", "--ema", "--out", "o.safetensors"},
            1,
            "averaged weights"},
           {{"r.yaml", "--weights", "run/weights.safetensors", "--out", "none/o.safetensors"},
            1,
            "none/o.safetensors"},
           {{"r.yaml", "--weights", "run/weights.safetensors", "--out", "run/../run/weights.safetensors"},
            2,
            "--out would write over run/weights.safetensors, which it reads"},
           {{"r.yaml", "--weights", "run/weights.safetensors", "--out", "e", "--onnx", "e"},
            2,
            "--out and --onnx both name e"},
           {{"r.yaml", "--weights", "run/weights.safetensors", "--onnx", "/dev/full"}, 1, "device or a pipe"},
           {{"r.yaml", "--weights", "r.yaml", "--out", "o.safetensors"}, 1, "r.yaml"}}) {
    const Outcome outcome = run(c.arguments);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << c.text;
    EXPECT_THAT(outcome.err, HasSubstr(c.text));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "o.safetensors")) << c.text;
  }
}

}  // namespace
}  // namespace tr::test
