/// The folder of one training: recipe.yaml, plan.txt, metrics.jsonl, TensorBoard's event files,
/// weights.safetensors, weights_ema.safetensors, checkpoints.
#pragma once

#include <filesystem>
#include <string_view>

#include "renaissance/train/checkpoint.h"

namespace tr::cli {

class RunFolder {
 public:
  /// Checks and changes nothing. IoError when the folder cannot be made or written, or when it holds a run
  /// already and `may_hold_run` is false.
  RunFolder(const std::filesystem::path& path, bool may_hold_run);

  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Keeps other programs' trainings out of the folder, if it is there, for as long as this lives. IoError
  /// where one is in it.
  void lock();
  /// Makes the folder and locks it; of an older run, removes what this one will write.
  void create();
  /// IoError where a training has ended from which nothing can go on: it would be lost.
  void check_begins() const;
  /// Whole or not at all.
  void write(std::string_view name, std::string_view text) const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path weights() const { return path_ / "weights.safetensors"; }
  /// Only of a training that averages them.
  std::filesystem::path averaged_weights() const { return path_ / "weights_ema.safetensors"; }
  CheckpointFolder checkpoints() const { return CheckpointFolder(path_ / "checkpoints"); }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  ///< an open descriptor of the folder, or none
};

}  // namespace tr::cli
