/// The folder of one training: recipe.yaml, plan.txt, metrics.jsonl, weights.safetensors.
#pragma once

#include <filesystem>
#include <string_view>

namespace tr::cli {

class RunFolder {
 public:
  /// Checks and changes nothing. IoError when the folder cannot be made or written, or when it holds a run
  /// already and `overwrite` is false.
  RunFolder(const std::filesystem::path& path, bool overwrite);

  /// Makes the folder; of an older run, removes what this one will write.
  void create() const;
  void write(std::string_view name, std::string_view text) const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path weights() const { return path_ / "weights.safetensors"; }

 private:
  std::filesystem::path path_;
};

}  // namespace tr::cli
