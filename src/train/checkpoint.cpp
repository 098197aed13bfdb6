// What a checkpoint says of itself: metadata of the safetensors file, as text and JSON.
#include "renaissance/train/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "renaissance/core/error.h"

namespace tr {

namespace {

using nlohmann::json;

constexpr const char* KIND = "renaissance checkpoint";
constexpr int64_t FORMAT_VERSION = 1;
constexpr const char* CHECKSUM = "crc32";
constexpr std::string_view WEIGHTS = "model.", AVERAGED = "ema.";

class Checksum {
 public:
  void add(const void* bytes, size_t count) {
    if (count == 0) return;  // null would begin anew
    crc_ = crc32_z(crc_, static_cast<const Bytef*>(bytes), count);
  }
  /// With its length, so that two texts in a row cannot change places.
  void add(std::string_view text) {
    const uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  std::string text() const {
    std::array<char, 16> hex{};
    std::snprintf(hex.data(), hex.size(), "%08lx", crc_);
    return hex.data();
  }

 private:
  uLong crc_ = crc32_z(0, nullptr, 0);
};

/// Over metadata and tensors by name: a file that another program wrote again keeps it.
std::string checksum_of(const StateDict& state) {
  Checksum sum;
  for (const auto& [key, value] : state.metadata) {
    if (key == CHECKSUM) continue;
    sum.add(key);
    sum.add(value);
  }
  std::vector<const std::pair<std::string, StateTensor>*> tensors;
  for (const auto& tensor : state.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* tensor : tensors) {
    sum.add(tensor->first);
    sum.add(tensor->second.dtype);
    for (const int64_t dim : tensor->second.shape) sum.add(&dim, sizeof dim);
    sum.add(tensor->second.data.data(), tensor->second.data.size());
  }
  return sum.text();
}

/// A recipe's paths are bytes, metadata is UTF-8: text that is not is stored with every byte as the character
/// of that number.
std::string bytes_to_utf8(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      text += c;
    else
      text += {static_cast<char>(0xc0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3f))};
  }
  return text;
}

std::string utf8_to_bytes(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool pair = byte >= 0x80 && i + 1 < text.size();
    bytes += pair ? static_cast<char>((byte & 0x03) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f))
                  : text[i];
  }
  return bytes;
}

bool is_utf8(const std::string& text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// JSON has no number for what is not finite: null.
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

json to_json(const Metrics& metrics) {
  return {
      {"loss", metrics.loss}, {"top1", metrics.top1}, {"top5", metrics.top5}, {"samples", metrics.samples}};
}

Metrics read_metrics(const json& value) {
  return {number(value.at("loss")), number(value.at("top1")), number(value.at("top5")),
          value.at("samples").get<int64_t>()};
}

json progress_json(const CheckpointInfo& info) {
  const TrainingProgress& progress = info.progress;
  return {{"epochs", progress.epochs},
          {"epoch_steps", progress.epoch_steps},
          {"epoch_seconds", progress.epoch_seconds},
          {"val", to_json(progress.val)},
          {"val_ema", progress.val_ema ? to_json(*progress.val_ema) : json()},
          {"best_top1", progress.best_top1},
          {"best_epoch", progress.best_epoch},
          {"steps", info.steps},
          {"skipped_steps", info.skipped_steps}};
}

void read_progress(const json& value, CheckpointInfo& info) {
  TrainingProgress& progress = info.progress;
  progress.epochs = value.at("epochs").get<int64_t>();
  progress.epoch_steps = value.at("epoch_steps").get<int64_t>();
  progress.epoch_seconds = number(value.at("epoch_seconds"));
  progress.val = read_metrics(value.at("val"));
  if (!value.at("val_ema").is_null()) progress.val_ema = read_metrics(value.at("val_ema"));
  progress.best_top1 = number(value.at("best_top1"));
  progress.best_epoch = value.at("best_epoch").get<int64_t>();
  info.steps = value.at("steps").get<int64_t>();
  info.skipped_steps = value.at("skipped_steps").get<int64_t>();
  TR_CHECK(progress.epochs >= 0 && progress.epoch_steps >= 0 && info.steps >= 0, DataError,
           "a count is negative");
}

json data_json(const CheckpointInfo& info) {
  return {{"train_samples", info.train_samples},
          {"val_samples", info.val_samples},
          {"channels", info.channels},
          {"height", info.height},
          {"width", info.width},
          {"classes", info.classes}};
}

void read_data(const json& value, CheckpointInfo& info) {
  info.train_samples = value.at("train_samples").get<int64_t>();
  info.val_samples = value.at("val_samples").get<int64_t>();
  info.channels = value.at("channels").get<int64_t>();
  info.height = value.at("height").get<int64_t>();
  info.width = value.at("width").get<int64_t>();
  info.classes = value.at("classes").get<int64_t>();
}

class MetadataReader {
 public:
  MetadataReader(const StateDict& file, const std::string& source) : file_(file), source_(source) {}

  const std::string& text(const char* key) const {
    const auto found = file_.metadata.find(key);
    TR_CHECK(found != file_.metadata.end(), DataError,
             cat(source_, ": a checkpoint without '", key, "' in its metadata; it is not whole"));
    return found->second;
  }
  template <typename Read>
  void parse(const char* key, const Read& read) const {
    try {
      read(json::parse(text(key)));
    } catch (const json::exception& error) {
      throw Error(ErrorKind::DataError,
                  cat(source_, ": the checkpoint's '", key, "' cannot be read: ", error.what()));
    }
  }

 private:
  const StateDict& file_;
  const std::string& source_;
};

}  // namespace

bool is_checkpoint(const StateDict& file) {
  const auto kind = file.metadata.find("kind");
  return kind != file.metadata.end() && kind->second == KIND;
}

void describe_checkpoint(StateDict& state, const CheckpointInfo& info) {
  const bool plain = is_utf8(info.recipe);
  state.metadata["format"] = "pt";
  state.metadata["kind"] = KIND;
  state.metadata["format_version"] = std::to_string(FORMAT_VERSION);
  state.metadata["library_version"] = TR_VERSION;
  state.metadata["recipe"] = plain ? info.recipe : bytes_to_utf8(info.recipe);
  state.metadata["recipe_encoding"] = plain ? "utf-8" : "latin-1";
  state.metadata["progress"] = progress_json(info).dump();
  state.metadata["data"] = data_json(info).dump();
  state.metadata["ranks"] = std::to_string(info.ranks);
  state.metadata[CHECKSUM] = checksum_of(state);
}

CheckpointInfo checkpoint_info(const StateDict& file, const std::string& source) {
  TR_CHECK(
      is_checkpoint(file), DataError,
      cat(source, ": not a checkpoint but ", file.tensors.size(),
          " tensors alone, from which no training can go on; use a file of a run's folder 'checkpoints'"));
  const MetadataReader reader(file, source);
  int64_t version = 0;
  reader.parse("format_version", [&](const json& value) { version = value.get<int64_t>(); });
  TR_CHECK(version <= FORMAT_VERSION, DataError,
           cat(source, ": a checkpoint of format ", version, ", this program reads up to ", FORMAT_VERSION,
               "; use renaissance ", reader.text("library_version"), " or newer"));
  const std::string computed = checksum_of(file);
  TR_CHECK(reader.text(CHECKSUM) == computed, DataError,
           cat(source, ": the checkpoint is damaged: its checksum is ", computed, ", it says ",
               reader.text(CHECKSUM)));
  CheckpointInfo info;
  reader.parse("progress", [&](const json& value) { read_progress(value, info); });
  reader.parse("data", [&](const json& value) { read_data(value, info); });
  reader.parse("ranks", [&](const json& value) { info.ranks = value.get<int64_t>(); });
  const bool plain = reader.text("recipe_encoding") == "utf-8";
  info.recipe = plain ? reader.text("recipe") : utf8_to_bytes(reader.text("recipe"));
  info.library_version = reader.text("library_version");
  return info;
}

StateDict weights_of(StateDict file, bool averaged) {
  if (!is_checkpoint(file)) {
    TR_CHECK(!averaged, DataError,
             "averaged weights were asked for, and the file is no checkpoint; use weights_ema.safetensors");
    return file;
  }
  StateDict weights;
  weights.metadata["format"] = "pt";
  std::set<std::string> names;
  const auto take = [&](std::string_view prefix) {
    for (auto& [name, tensor] : file.tensors)
      if (name.starts_with(prefix) && names.insert(name.substr(prefix.size())).second)
        weights.tensors.emplace_back(name.substr(prefix.size()), std::move(tensor));
  };
  if (averaged) {
    take(AVERAGED);
    TR_CHECK(!names.empty(), DataError,
             "averaged weights were asked for, and the checkpoint has none; its training had ema.decay 0");
  }
  take(WEIGHTS);
  return weights;
}

StateDict read_weights(const std::filesystem::path& file, bool averaged) {
  StateDict read = read_safetensors(file);
  if (is_checkpoint(read)) checkpoint_info(read, file.string());  // refuses a damaged one
  try {
    return weights_of(std::move(read), averaged);
  } catch (const Error& error) {
    throw Error(error.kind(), cat(file.string(), ": ", error.what()));
  }
}

}  // namespace tr
