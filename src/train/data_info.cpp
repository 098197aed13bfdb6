#include <optional>

#include "renaissance/train/trainer.h"
#include "train/data_source.h"

namespace tr {

namespace {

constexpr const char* TRAIN_IMAGES = "train-images-idx3-ubyte";
constexpr const char* VAL_IMAGES = "t10k-images-idx3-ubyte";

struct IdxFiles {
  std::filesystem::path train_images, train_labels, val_images, val_labels;
};

/// The four files of the MNIST family; those that the recipe names win over the folder.
IdxFiles idx_files(const DataRecipe& data) {
  const auto pick = [&](const std::filesystem::path& given, const std::string& stem) {
    return given.empty() ? find_idx(data.path, stem) : given;
  };
  return {pick(data.train_images, TRAIN_IMAGES), pick(data.train_labels, "train-labels-idx1-ubyte"),
          pick(data.val_images, VAL_IMAGES), pick(data.val_labels, "t10k-labels-idx1-ubyte")};
}

void agree(std::string_view key, int64_t stated, int64_t found, const std::filesystem::path& file) {
  TR_CHECK(stated == 0 || stated == found, DataError,
           cat(file.string(), ": has ", found, ", the recipe states data.", key, ": ", stated,
               "; correct one of them"));
}

DataInfo stated_info(const DataRecipe& data, std::string_view why) {
  const auto need = [&](std::string_view key, int64_t value) {
    TR_CHECK(value > 0, RecipeError, cat("data.", key, " is not stated, and ", why, "; state it"));
    return value;
  };
  DataInfo info;
  info.train_samples = need("train_samples", data.train_samples);
  info.val_samples = need("val_samples", data.val_samples);
  info.channels = need("channels", data.channels);
  info.height = need("height", data.height);
  info.width = need("width", data.width);
  return info;
}

DataInfo idx_info(const DataRecipe& data, bool files_needed) {
  std::string missing;
  // A plan needs sizes only and does without a file; one that is there and wrong is never passed over.
  const auto header = [&](const std::filesystem::path& given, const std::string& stem,
                          std::string_view samples_key, int64_t stated_samples) -> std::optional<IdxHeader> {
    try {
      const std::filesystem::path file = given.empty() ? find_idx(data.path, stem) : given;
      const IdxHeader found = read_idx_image_header(file);
      agree(samples_key, stated_samples, found.count, file);
      agree("height", data.height, found.height, file);
      agree("width", data.width, found.width, file);
      agree("channels", data.channels, 1, file);
      return found;
    } catch (const Error& error) {
      if (files_needed || error.kind() != ErrorKind::IoError) throw;
      missing = error.what();
      return std::nullopt;
    }
  };
  const auto train = header(data.train_images, TRAIN_IMAGES, "train_samples", data.train_samples);
  const auto val = header(data.val_images, VAL_IMAGES, "val_samples", data.val_samples);
  if (!train.has_value() || !val.has_value())
    return stated_info(data, cat("its files cannot be read (", missing, ")"));
  TR_CHECK(train->height == val->height && train->width == val->width, DataError,
           cat("validation images are ", val->height, "x", val->width, ", training images ", train->height,
               "x", train->width, "; they must be of one size"));
  return {train->count, val->count, 1, train->height, train->width, 0};
}

}  // namespace

DataInfo data_info(const Recipe& recipe, bool files_needed) {
  const DataRecipe& data = recipe.data;
  DataInfo info = data.source == DataSource::SYNTHETIC
                      ? stated_info(data, "synthetic data has no files to tell")
                      : idx_info(data, files_needed);
  TR_CHECK(data.classes > 0, RecipeError, "data.classes is not stated; say how many classes the labels have");
  info.classes = data.classes;
  return info;
}

LoadedData load_data(const Recipe& recipe, const DataInfo& info) {
  if (recipe.data.source == DataSource::SYNTHETIC) {
    const auto make = [&](uint32_t split, int64_t count) {
      return make_synthetic(recipe.train.seed, split, count, info.height, info.width, info.channels,
                            info.classes);
    };
    return {make(0, info.train_samples), make(1, info.val_samples)};
  }
  const IdxFiles files = idx_files(recipe.data);
  return {read_idx(files.train_images, files.train_labels, info.classes),
          read_idx(files.val_images, files.val_labels, info.classes)};
}

}  // namespace tr
