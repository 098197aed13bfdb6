#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tr::cli {

namespace {

/// Lines between epochs come no faster than this.
constexpr std::chrono::seconds LINE_INTERVAL{5};

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string speed_text(double images_per_s) {
  return format(images_per_s < 10.0 ? "%.2f img/s" : "%.0f img/s", images_per_s);
}

std::string step_text(const Progress& p) {
  return format("loss %.4f  top-1 %.2f%%  %s  ETA %s", p.train.loss, 100.0 * p.train.top1,
                speed_text(p.images_per_s).c_str(), duration_text(p.seconds_left).c_str());
}

size_t terminal_columns(std::FILE* out) {
  constexpr size_t USUAL = 80;
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL;
}

}  // namespace

ProgressStyle progress_style(std::FILE* out, bool quiet) {
  if (quiet) return ProgressStyle::QUIET;
  const char* terminal = std::getenv("TERM");
  const bool redraws =
      isatty(fileno(out)) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  return redraws ? ProgressStyle::BAR : ProgressStyle::LINES;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto all = static_cast<long long>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  const long long hours = all / 3600, minutes = all / 60 % 60, rest = all % 60;
  return hours > 0 ? format("%lld:%02lld:%02lld", hours, minutes, rest)
                   : format("%lld:%02lld", minutes, rest);
}

ProgressPrinter::ProgressPrinter(std::FILE* out, ProgressStyle style) : out_(out), style_(style) {}

ProgressPrinter::~ProgressPrinter() { erase_bar(); }

void ProgressPrinter::step(const Progress& progress) {
  if (style_ == ProgressStyle::BAR) return draw_bar(progress);
  // The epoch's own line follows its last step.
  if (progress.step == progress.steps || Clock::now() - last_line_ < LINE_INTERVAL) return;
  line(format("epoch %lld/%lld  step %lld/%lld  ", static_cast<long long>(progress.epoch),
              static_cast<long long>(progress.epochs), static_cast<long long>(progress.step),
              static_cast<long long>(progress.steps)) +
       step_text(progress));
}

void ProgressPrinter::epoch(const EpochReport& report, int64_t epochs) {
  std::string text =
      format("epoch %lld/%lld  train loss %.4f top-1 %.2f%%  val loss %.4f top-1 %.2f%%",
             static_cast<long long>(report.epoch), static_cast<long long>(epochs), report.train.loss,
             100.0 * report.train.top1, report.val.loss, 100.0 * report.val.top1);
  if (report.val_ema)
    text += format("  ema loss %.4f top-1 %.2f%%", report.val_ema->loss, 100.0 * report.val_ema->top1);
  text += format("  lr %.4g  %s  %.1f s", report.learning_rate, speed_text(report.images_per_s).c_str(),
                 report.seconds);
  if (report.skipped_steps > 0)
    text += format("  %lld steps skipped", static_cast<long long>(report.skipped_steps));
  line(text);
}

void ProgressPrinter::line(const std::string& text) {
  if (style_ == ProgressStyle::QUIET) return;
  erase_bar();
  std::fprintf(out_, "%s\n", text.c_str());
  std::fflush(out_);
  last_line_ = Clock::now();
}

void ProgressPrinter::draw_bar(const Progress& progress) {
  constexpr size_t MOST_CELLS = 30, FEWEST_CELLS = 5;
  const double share =
      static_cast<double>(progress.step) / static_cast<double>(std::max<int64_t>(progress.steps, 1));
  const std::string left = format("epoch %lld/%lld ", static_cast<long long>(progress.epoch),
                                  static_cast<long long>(progress.epochs));
  const std::string right = format("%3.0f%%  ", 100.0 * share) + step_text(progress);
  // A line that wraps could not be redrawn.
  const size_t columns = terminal_columns(out_) - 1, words = left.size() + right.size() + 3;
  std::string bar;
  if (columns >= words + FEWEST_CELLS) {
    const size_t cells = std::min(columns - words, MOST_CELLS);
    const auto filled = static_cast<size_t>(share * static_cast<double>(cells));
    bar = "[" + std::string(filled, '=') + std::string(cells - filled, ' ') + "] ";
  }
  std::fprintf(out_, "\r%s\x1b[K", (left + bar + right).substr(0, columns).c_str());
  std::fflush(out_);
  bar_drawn_ = true;
}

void ProgressPrinter::erase_bar() {
  if (!bar_drawn_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  bar_drawn_ = false;
}

}  // namespace tr::cli
