/// The folder of one training: recipe.yaml, plan.txt, metrics.jsonl, weights.safetensors, checkpoints.
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

  /// Makes the folder; of an older run, removes what this one will write.
  void create() const;
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
};

}  // namespace tr::cli
