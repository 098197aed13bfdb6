/// Runs the built program as a user does, and a small recipe to give it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/temp_folder.h"

namespace tr::test {

struct Outcome {
  int exit_code = -1;  ///< 128 + number for a process that a signal ended, as shells count
  std::string out, err;
};

/// A started program; its output goes to files in a folder of its own.
class Program {
 public:
  /// Starts `renaissance arguments…` in `folder`.
  Program(const std::filesystem::path& folder, std::vector<std::string> arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void send(int signal_number) const;
  Outcome wait();

 private:
  TempFolder output_;
  pid_t process_ = -1;
};

Outcome run_program(const std::filesystem::path& folder, std::vector<std::string> arguments);

/// A recipe of a second's training on made-up 8x8 images of 4 classes, with `more` lines added.
std::string small_recipe(std::string_view more = "");

/// The four IDX files of 12 training and 8 validation images of 6x6, labels 0 to 9 in turn.
void write_small_idx(const std::filesystem::path& folder);
/// A recipe for them; classes as given.
std::string idx_recipe(const std::filesystem::path& folder, int classes);

}  // namespace tr::test
