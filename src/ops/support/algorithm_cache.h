/// Remembers which algorithm timing chose for a piece of work, in memory and in a file: the next run on the
/// same card, driver and library versions makes the same choice, and so gives the same bits.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace tr {

class AlgorithmCache {
 public:
  /// `machine` names card, driver and library versions; what a file holds for another machine is not read.
  /// An empty path keeps choices in memory only. A file that cannot be read counts as empty.
  AlgorithmCache(std::filesystem::path file, std::string machine);

  /// What was chosen for `work` ("conv fprop fp16 …", complete enough that equal texts are equal work).
  std::optional<std::string> find(const std::string& work) const;
  void store(const std::string& work, const std::string& choice);
  /// Writes the file aside and renames it, merged with what other processes stored since. Where the folder
  /// cannot be written nothing happens: the cache is a convenience.
  void save();

  /// $XDG_CACHE_HOME/renaissance, else ~/.cache/renaissance; empty where neither is known.
  static std::filesystem::path default_folder();

 private:
  std::map<std::string, std::string> read_file() const;

  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, std::string> choices_;
  bool changed_ = false;
};

}  // namespace tr
