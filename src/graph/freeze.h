/// Which parameters a training leaves as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tr {

/// Whether `name` is `pattern` with something, or nothing, in place of each `*`.
bool matches_glob(std::string_view pattern, std::string_view name);

/// As in CompileRequest.
struct Freezing {
  std::vector<std::string> patterns;
  bool statistics = false;
};

/// Is asked for every parameter of a model, then checks that what was asked for makes sense.
class Freezer {
 public:
  explicit Freezer(Freezing freezing);

  bool freezes(const std::string& parameter);
  /// Batch norm with these parameters keeps its running statistics too.
  bool freezes_statistics(const std::vector<bool>& frozen);
  /// RecipeError for a pattern that matched nothing, with the nearest that would; for a model in which
  /// nothing is left to train; for statistics that were to be frozen where there are none.
  void finish() const;

 private:
  Freezing freezing_;
  std::vector<bool> matched_;  ///< by pattern
  std::vector<std::string> names_;
  bool something_trains_ = false, has_frozen_statistics_ = false;
};

}  // namespace tr
