/// Shows a training to people: a bar that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "renaissance/train/metrics.h"

namespace tr::cli {

enum class ProgressStyle { BAR, LINES, QUIET };

/// BAR for a terminal that can redraw a line.
ProgressStyle progress_style(std::FILE* out, bool quiet);

/// "1:02:03", "2:03".
std::string duration_text(double seconds);

class ProgressPrinter {
 public:
  ProgressPrinter(std::FILE* out, ProgressStyle style);
  /// Leaves no half-drawn bar behind.
  ~ProgressPrinter();
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void step(const Progress& progress);
  void epoch(const EpochReport& report, int64_t epochs);
  /// A line of its own; nothing when quiet.
  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(const Progress& progress);
  void erase_bar();

  std::FILE* out_;
  ProgressStyle style_;
  bool bar_drawn_ = false;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace tr::cli
