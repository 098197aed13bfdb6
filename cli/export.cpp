#include "renaissance/train/export.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "model_source.h"
#include "renaissance/core/error.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance export runs/first/recipe.yaml --weights runs/first/weights.safetensors --onnx first.onnx
  renaissance export runs/first/checkpoints/best.safetensors --out best.safetensors
  renaissance export resnet50 --weights resnet50.safetensors --fold-bn --onnx resnet50.onnx

--out writes a state_dict that torchvision loads strictly; --onnx the network for inference, from normalized images
[N,C,H,W] to logits. With --fold-bn neither has the batch norms that a layer before them can take in.)";

struct ExportArguments {
  std::string model, weights, out, onnx;
  std::vector<std::string> overrides;
  bool fold_bn = false, averaged = false;
};

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code code;
  return !a.empty() && !b.empty() && (a == b || std::filesystem::equivalent(a, b, code));
}

/// A checkpoint that is written over cannot be resumed from.
void check_outputs(const ExportArguments& arguments) {
  for (const auto& [option, file] : {std::pair("--out", arguments.out), std::pair("--onnx", arguments.onnx)})
    for (const std::string& input : {arguments.model, arguments.weights})
      TR_CHECK(!is_same_file(file, input), ValueError,
               cat("export: ", option, " would write over ", input, ", which it reads; name another file"));
  TR_CHECK(!is_same_file(arguments.out, arguments.onnx), ValueError,
           cat("export: --out and --onnx both name ", arguments.out, "; name two files"));
}

int write_exports(const ExportArguments& arguments) {
  TR_CHECK(!arguments.out.empty() || !arguments.onnx.empty(), ValueError,
           "export: nothing to write; name a file with --out or --onnx");
  check_outputs(arguments);
  const ModelSource source =
      read_model_source(arguments.model, arguments.overrides, arguments.weights, arguments.averaged);
  const ExportOptions options{arguments.fold_bn};
  if (!arguments.out.empty())
    write_safetensors(arguments.out, export_state_dict(source.recipe, source.weights, options));
  if (!arguments.onnx.empty()) export_onnx(arguments.onnx, source.recipe, source.weights, options);
  return EXIT_FINE;
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("export", "Write trained networks for other programs");
  const auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("MODEL", arguments->model,
                   "recipe (- for standard input), checkpoint, or the name of a ready network")
      ->required()
      ->option_text(" ");
  verb->add_option("OVERRIDES", arguments->overrides, "values that replace the recipe's")
      ->option_text("key=value ...");
  verb->add_option("--weights", arguments->weights, "safetensors file, a state_dict or a checkpoint")
      ->option_text("FILE (not needed for a checkpoint)");
  verb->add_flag("--ema", arguments->averaged, "the moving average of a checkpoint's weights");
  verb->add_option("--out", arguments->out, "write the state_dict as safetensors")->option_text("FILE");
  verb->add_option("--onnx", arguments->onnx, "write the network as ONNX, opset 17")->option_text("FILE");
  verb->add_flag("--fold-bn", arguments->fold_bn, "batch norms become part of the layers before them");
  verb->footer(EXAMPLES);
  verb->callback([arguments, &exit_code] { exit_code = write_exports(*arguments); });
}

}  // namespace tr::cli
