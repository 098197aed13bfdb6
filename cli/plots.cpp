#include "renaissance/train/plots.h"

#include <filesystem>
#include <memory>

#include "output_file.h"
#include "verbs.h"

namespace tr::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* EXAMPLES = R"(Examples:
  renaissance plots runs/fashion_mnist_cnn
  renaissance plots runs/sgd runs/adamw --out compared.svg

Draws loss and top-1 accuracy by epoch, of training and validation, as SVG. RUN is a run folder or its metrics.jsonl.)";

struct PlotsOptions {
  std::vector<std::string> runs;
  std::string out;
};

RunMetrics read_run(const fs::path& given) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(given, ignored);
  const fs::path file = is_folder ? given / "metrics.jsonl" : given;
  const fs::path folder = (is_folder ? given / "" : given).lexically_normal().parent_path();
  const std::string name = folder.filename().string();
  return {name.empty() ? given.string() : name, read_metrics(file)};
}

int plots(const PlotsOptions& options) {
  std::vector<RunMetrics> runs;
  for (const std::string& run : options.runs) runs.push_back(read_run(run));
  std::error_code ignored;
  const fs::path first = options.runs.front();
  const fs::path folder = fs::is_directory(first, ignored) ? first : first.parent_path();
  write_output(options.out.empty() ? (folder / "curves.svg").string() : options.out, curves_svg(runs));
  return EXIT_FINE;
}

}  // namespace

void add_plots(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("plots", "Draw the curves of runs");
  const auto options = std::make_shared<PlotsOptions>();
  verb->add_option("RUN", options->runs, "run folders, or metrics.jsonl files")->required();
  verb->add_option("--out", options->out,
                   "SVG file; - is standard output; default: curves.svg in the first RUN")
      ->option_text("FILE");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = plots(*options); });
}

}  // namespace tr::cli
