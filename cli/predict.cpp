#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "integer_range.h"
#include "model_source.h"
#include "renaissance/core/error.h"
#include "renaissance/train/predictor.h"
#include "verbs.h"

namespace tr::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* EXAMPLES = R"(Examples:
  renaissance predict runs/first/recipe.yaml --weights runs/first/weights.safetensors cat.png photos/
  renaissance predict runs/first/checkpoints/best.safetensors cat.jpg --top 3 --json
  renaissance predict resnet50 --weights resnet50.safetensors --resize 256 --classes names.txt cat.jpg
  renaissance predict recipe.yaml --weights weights.safetensors t10k-images-idx3-ubyte

An IMAGE is a JPEG, PNG or IDX file, or a folder of JPEG and PNG files. It is scaled to cover the validation
resolution, cropped around its centre and normalized as the recipe says.)";

struct PredictOptions {
  std::string model, weights, classes;
  std::vector<std::string> arguments;  ///< images, and overrides of the recipe
  int64_t top = 5, resize = 0;
  bool averaged = false, logits = false, json = false;
};

bool is_image_name(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

/// The images of a folder and the folders in it, in byte order; hidden ones are left out.
std::vector<std::string> images_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code code;
  auto entry = fs::recursive_directory_iterator(folder, code);
  for (; entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    std::error_code failed;
    const fs::file_status status = entry->status(failed);
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (is_hidden && fs::is_directory(status)) entry.disable_recursion_pending();
    // A link that leads nowhere is named with the others that cannot be read.
    const bool is_file = fs::is_regular_file(status) || !fs::exists(status);
    if (!is_hidden && is_file && is_image_name(entry->path())) files.push_back(entry->path().string());
  }
  TR_CHECK(!code, IoError, cat(folder, ": cannot be read whole: ", code.message()));
  TR_CHECK(!files.empty(), IoError, cat(folder, ": holds no .jpg, .jpeg or .png file"));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> image_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    std::error_code ignored;
    const std::vector<std::string> found =
        fs::is_directory(path, ignored) ? images_in(path) : std::vector<std::string>{path};
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

/// One name a line; nothing where nobody names the classes.
std::vector<std::string> class_names(const PredictOptions& options, const Recipe& recipe, int64_t classes) {
  if (options.classes.empty()) return recipe.data.class_names;
  std::ifstream in(options.classes, std::ios::binary);
  TR_CHECK(in.is_open() && !fs::is_directory(options.classes), IoError,
           cat(options.classes, ": cannot be read; give a file with a class name on each line"));
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  TR_CHECK(std::ssize(names) == classes, DataError,
           cat(options.classes, ": has ", names.size(), " lines, the network has ", classes,
               " classes; give one name a line"));
  return names;
}

struct Ranked {
  int64_t label = 0;
  double probability = 0.0;
};

/// The `top` most probable classes, the first of equals first.
std::vector<Ranked> rank(std::span<const float> logits, int64_t top) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(top)); ++i)
    ranked.push_back(
        {order[i], std::exp(static_cast<double>(logits[static_cast<size_t>(order[i])]) - largest) / sum});
  return ranked;
}

/// Prints what the network says of images, in the order they were given.
class Printer {
 public:
  Printer(const PredictOptions& options, std::vector<std::string> names)
      : options_(options), names_(std::move(names)) {}

  void image(const std::string& name, std::span<const float> logits) const {
    const std::vector<Ranked> ranked = rank(logits, options_.top);
    if (options_.json) {
      nlohmann::ordered_json line{{"file", name}, {"top", nlohmann::ordered_json::array()}};
      for (const auto& [label, probability] : ranked)
        line["top"].push_back({{"class", label}, {"name", class_name(label)}, {"probability", probability}});
      if (options_.logits) line["logits"] = std::vector<float>(logits.begin(), logits.end());
      print(line);
      return;
    }
    std::printf("%s\n", name.c_str());
    for (const auto& [label, probability] : ranked)
      std::printf("  %6.2f %%  %lld%s%s\n", 100.0 * probability, static_cast<long long>(label),
                  names_.empty() ? "" : "  ", names_.empty() ? "" : class_name(label).c_str());
  }

  void failure(const std::string& name, const std::string& reason) const {
    std::fflush(stdout);
    std::cout.flush();
    std::cerr << "renaissance: " << reason << std::endl;
    if (options_.json) print({{"file", name}, {"error", reason}});
  }

 private:
  std::string class_name(int64_t label) const {
    return names_.empty() ? std::to_string(label) : names_[static_cast<size_t>(label)];
  }
  /// A path is bytes; JSON is UTF-8.
  static void print(const nlohmann::ordered_json& line) {
    std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  }

  const PredictOptions& options_;
  const std::vector<std::string> names_;
};

/// Collects images and lets the network see a batch at a time.
class Batcher {
 public:
  Batcher(Predictor& predictor, const Printer& printer) : predictor_(predictor), printer_(printer) {}

  void add(std::string name, Image image) {
    names_.push_back(std::move(name));
    images_.push_back(std::move(image));
    if (std::ssize(images_) == predictor_.input().n()) flush();
  }
  void flush() {
    if (images_.empty()) return;
    const std::vector<float> logits = predictor_.logits(images_);
    const auto classes = static_cast<size_t>(predictor_.classes());
    for (size_t i = 0; i < images_.size(); ++i)
      printer_.image(names_[i], std::span(logits).subspan(i * classes, classes));
    names_.clear();
    images_.clear();
  }

 private:
  Predictor& predictor_;
  const Printer& printer_;
  std::vector<std::string> names_;
  std::vector<Image> images_;
};

/// false when it cannot be read.
bool predict_file(const std::string& file, int64_t resize, const Shape& input, const Printer& printer,
                  Batcher& batcher) {
  try {
    const std::vector<Image> images = read_images(file, input.c());
    for (size_t i = 0; i < images.size(); ++i)
      batcher.add(images.size() == 1 ? file : cat(file, '[', i, ']'),
                  fit_image(images[i], input.h(), input.w(), resize));
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::DataError && error.kind() != ErrorKind::IoError) throw;
    batcher.flush();  // in the order given
    const std::string reason = error.what();
    printer.failure(file, reason.find(file) == std::string::npos ? cat(file, ": ", reason) : reason);
    return false;
  }
}

int predict(const PredictOptions& options) {
  std::vector<std::string> overrides, given;
  for (const std::string& argument : options.arguments)
    (is_override(argument) ? overrides : given).push_back(argument);
  TR_CHECK(!given.empty(), ValueError, "predict: no image is given; name files or folders after the recipe");
  const ModelSource source = read_model_source(options.model, overrides, options.weights, options.averaged);
  const std::vector<std::string> files = image_files(given);

  constexpr int64_t MOST_AT_A_TIME = 32;
  const bool one_each =
      std::all_of(files.begin(), files.end(), [](const auto& f) { return is_image_name(f); });
  Predictor predictor(source.recipe, source.weights,
                      one_each ? std::min(MOST_AT_A_TIME, std::ssize(files)) : MOST_AT_A_TIME);
  const Printer printer(options, class_names(options, source.recipe, predictor.classes()));
  Batcher batcher(predictor, printer);
  bool all_read = true;
  for (const std::string& file : files)
    all_read = predict_file(file, options.resize, predictor.input(), printer, batcher) && all_read;
  batcher.flush();
  std::fflush(stdout);
  return all_read ? EXIT_FINE : EXIT_FAILED;
}

}  // namespace

void add_predict(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("predict", "Classify images with trained weights");
  const auto options = std::make_shared<PredictOptions>();
  verb->add_option("MODEL", options->model,
                   "recipe (- for standard input), checkpoint, or the name of a ready network")
      ->required()
      ->option_text(" ");
  verb->add_option("IMAGES", options->arguments, "image files and folders, and key=value for the recipe")
      ->option_text("IMAGE ... [key=value ...]");
  verb->add_option("--weights", options->weights, "safetensors file, a state_dict or a checkpoint")
      ->option_text("FILE (not needed for a checkpoint)");
  verb->add_flag("--ema", options->averaged, "the moving average of a checkpoint's weights");
  verb->add_option("--top", options->top, "classes to show, the most probable first; default 5")
      ->transform(integer_range(1))
      ->option_text("N");
  verb->add_option("--resize", options->resize,
                   "scale the shorter side to N before the crop; default: as the validation resolution")
      ->transform(integer_range(1, 1 << 15))
      ->option_text("N");
  verb->add_option("--classes", options->classes,
                   "file with a class name on each line; default: data.class_names")
      ->option_text("FILE");
  verb->add_flag("--logits", options->logits, "with --json: the network's outputs too");
  verb->add_flag("--json", options->json, "print one line of JSON an image: file, top or error");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = predict(*options); });
}

}  // namespace tr::cli
