/// Weights in and out as safetensors, with torchvision-style names and shapes ([K,C,R,S], [out,in], [C]), and
/// checkpoints: everything that a training needs to go on to the bit, in one file of the same format
/// (docs/checkpoints.md). Format: https://github.com/huggingface/safetensors (8-byte little-endian header
/// length, JSON, data).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/types.h"
#include "renaissance/train/metrics.h"

namespace tr {

/// One tensor of a state_dict: data of `dtype` as bytes, little-endian, row-major.
struct StateTensor {
  std::string dtype = "F32";   ///< safetensors' name: F32, F16, BF16, I64, …
  std::vector<int64_t> shape;  ///< empty for a scalar
  std::vector<std::byte> data;
};

struct StateDict {
  std::vector<std::pair<std::string, StateTensor>> tensors;  ///< in file order
  std::map<std::string, std::string> metadata;

  const StateTensor* find(std::string_view name) const;
};

/// Written aside, flushed to disk, renamed: `file` is either the old one or the new one, whole. IoError names
/// the path and the system's reason; the old file stays.
void write_safetensors(const std::filesystem::path& file, const StateDict& state);

/// Reads and checks everything before returning: header length, JSON, dtypes, shapes, offsets that cover the
/// data exactly without overlap. DataError with the file and what was found otherwise; IoError when missing.
StateDict read_safetensors(const std::filesystem::path& file);

/// How far a training is, beyond what its arenas hold.
struct TrainingProgress {
  int64_t epochs = 0;              ///< finished, their validation included
  int64_t epoch_steps = 0;         ///< steps done of the epoch after them
  double epoch_seconds = 0.0;      ///< spent on those steps
  Metrics val;                     ///< after the last finished epoch; of no samples before the first
  std::optional<Metrics> val_ema;  ///< likewise of the averaged weights, with EMA
  double best_top1 = 0.0;          ///< the highest val.top1 …
  int64_t best_epoch = 0;          ///< … and the first epoch that reached it; 0 before the first
};

/// What a checkpoint says of itself, beside its tensors.
struct CheckpointInfo {
  TrainingProgress progress;
  int64_t steps = 0, skipped_steps = 0;  ///< since the training began, the skipped ones included in `steps`
  int64_t ranks = 1;
  /// The data that it trained on: samples, image size, classes.
  int64_t train_samples = 0, val_samples = 0, channels = 0, height = 0, width = 0, classes = 0;
  std::string recipe;           ///< as resolved, YAML
  std::string library_version;  ///< that wrote it
};

/// Whether a file that was read is a checkpoint, as opposed to weights alone.
bool is_checkpoint(const StateDict& file);
/// Reads a checkpoint's metadata and compares its checksum. DataError, beginning with `source`, for a file
/// that is no checkpoint, was written by a newer program, lacks something, or whose bytes have changed.
CheckpointInfo checkpoint_info(const StateDict& file, const std::string& source);
/// Adds metadata and checksum to the tensors of a training's state.
void describe_checkpoint(StateDict& state, const CheckpointInfo& info);
/// The weights and statistics in a checkpoint, or, of any other file, all it holds. `averaged`: the moving
/// average of the weights with the statistics of the weights themselves; DataError where there is none.
StateDict weights_of(StateDict file, bool averaged = false);
/// weights_of() a safetensors file, whose name its errors begin with; a damaged checkpoint is refused.
StateDict read_weights(const std::filesystem::path& file, bool averaged = false);

/// A training's checkpoints: epoch-0003.safetensors after three epochs, epoch-0003-step-000120.safetensors
/// after 120 steps of the fourth, best.safetensors.
class CheckpointFolder {
 public:
  struct Entry {
    std::filesystem::path file;
    int64_t epochs = 0, epoch_steps = 0;
  };

  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Newest first; best.safetensors is not among them. Nothing where there is no folder.
  std::vector<Entry> entries() const;
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  const std::filesystem::path& path() const { return path_; }

  /// Writes the checkpoint, then removes all but the newest `keep_last`, those that are further on than it,
  /// left by a training that went back, and what a killed program left of one. Makes the folder. `is_best`:
  /// the best one too. IoError names path and reason, and the newest checkpoint that is left; nothing was
  /// removed then.
  void add(const StateDict& checkpoint, const TrainingProgress& progress, int64_t keep_last,
           bool is_best) const;
  /// Only the best one.
  void write_best(const StateDict& checkpoint) const;
  /// Removes every checkpoint and what a killed program left of one.
  void clear() const;

 private:
  void make() const;
  void write(const std::filesystem::path& file, const StateDict& checkpoint) const;

  std::filesystem::path path_;
};

/// The newest checkpoint of a folder that is whole.
struct NewestCheckpoint {
  std::filesystem::path file;
  StateDict state;
  std::vector<std::string> passed_over;  ///< what is wrong with newer ones
};
/// Nothing for a folder without any; DataError with all that is wrong when none is whole.
std::optional<NewestCheckpoint> newest_checkpoint(const CheckpointFolder& folder);

}  // namespace tr
