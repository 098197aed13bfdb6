#include "graph/freeze.h"

#include <algorithm>
#include <set>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"

namespace tr {

namespace {

/// Names, and the globs over them that people write: "layer1.*", "*.bias".
std::vector<std::string> likely_patterns(const std::vector<std::string>& names) {
  std::set<std::string> patterns(names.begin(), names.end());
  for (const std::string& name : names) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      patterns.insert(name.substr(0, dot) + ".*");
    patterns.insert("*" + name.substr(std::min(name.rfind('.'), name.size())));
  }
  return {patterns.begin(), patterns.end()};
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view name) {
  // Where a star was, more of the name is tried to be its own: the last star is enough to go back to.
  size_t p = 0, n = 0, star = std::string_view::npos, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Freezer::Freezer(Freezing freezing)
    : freezing_(std::move(freezing)), matched_(freezing_.patterns.size(), false) {}

bool Freezer::freezes(const std::string& parameter) {
  bool freezes = false;
  for (size_t i = 0; i < matched_.size(); ++i) {
    if (!matches_glob(freezing_.patterns[i], parameter)) continue;
    matched_[i] = freezes = true;
  }
  names_.push_back(parameter);
  something_trains_ = something_trains_ || !freezes;
  return freezes;
}

bool Freezer::freezes_statistics(const std::vector<bool>& frozen) {
  const bool whole = freezing_.statistics && !frozen.empty() &&
                     std::all_of(frozen.begin(), frozen.end(), [](bool is_frozen) { return is_frozen; });
  has_frozen_statistics_ = has_frozen_statistics_ || whole;
  return whole;
}

void Freezer::finish() const {
  for (size_t i = 0; i < matched_.size(); ++i) {
    if (matched_[i]) continue;
    const std::string& pattern = freezing_.patterns[i];
    const std::string near = nearest_name(pattern, likely_patterns(names_));
    throw Error(ErrorKind::RecipeError,
                cat("train.freeze: '", pattern, "' matches no parameter; ",
                    near.empty() ? cat("their names are such as '", names_.empty() ? "" : names_[0], "'")
                                 : cat("did you mean '", near, "'?")));
  }
  TR_CHECK(freezing_.patterns.empty() || something_trains_, RecipeError,
           cat("train.freeze: all ", names_.size(),
               " parameters are frozen, nothing is left to train; freeze fewer, or evaluate with "
               "train.epochs: 0"));
  TR_CHECK(!freezing_.statistics || has_frozen_statistics_, RecipeError,
           "train.freeze_statistics: no batch norm has all its parameters frozen; name them in train.freeze, "
           "or leave it out");
}

}  // namespace tr
