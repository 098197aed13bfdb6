/// Curves of loss and accuracy over the epochs of runs, as one SVG drawing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tr {

/// One line of metrics.jsonl; NaN where it has no number. Accuracies are fractions 0…1.
struct EpochMetrics {
  int64_t epoch = 0;  ///< from 1
  double train_loss = 0.0, val_loss = 0.0, val_ema_loss = 0.0;
  double train_top1 = 0.0, val_top1 = 0.0, val_ema_top1 = 0.0;
};

struct RunMetrics {
  std::string name;
  std::vector<EpochMetrics> epochs;
};

/// IoError when `file` cannot be read; DataError with its line for what is not an object with a number
/// "epoch", and for a file without a line.
std::vector<EpochMetrics> read_metrics(const std::filesystem::path& file);

/// Loss and top-1 beside each other; a colour for each run, broken lines for training, dots for averaged
/// weights. Stands alone, and is dark where its reader is.
std::string curves_svg(std::span<const RunMetrics> runs);

}  // namespace tr
