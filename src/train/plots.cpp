#include "renaissance/train/plots.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr {

namespace {

constexpr double WIDTH = 960.0, HEIGHT = 400.0, PANEL = 480.0;
constexpr double LEFT = 56.0, RIGHT = 16.0, TOP = 40.0, BOTTOM = 48.0, LEGEND_LINE = 18.0;
// Colours that people with any colour vision tell apart (Okabe and Ito), readable on light and on dark.
constexpr std::array<const char*, 6> COLOURS{"#0072b2", "#d55e00", "#009e73",
                                             "#cc79a7", "#e69f00", "#56b4e9"};

double number_of(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out;
}

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string tick_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// 1, 2 or 5 times a power of ten, at most `most` of them in `span`.
double tick_step(double span, int most) {
  const double raw = span / most, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10.0 * power;
}

/// An axis that begins and ends at ticks.
struct Axis {
  double low = 0.0, high = 1.0, step = 1.0;

  Axis(Range range, int most) {
    if (!(range.low <= range.high)) range = {0.0, 1.0};  // nothing to draw
    const double least = std::max(std::abs(range.high) * 1e-6, 1e-9);
    if (range.high - range.low < least) range = {range.low - least, range.high + least};
    step = tick_step(range.high - range.low, most);
    low = std::floor(range.low / step + 1e-9) * step;
    high = std::ceil(range.high / step - 1e-9) * step;
  }
  int ticks() const { return static_cast<int>(std::lround((high - low) / step)); }
  double tick(int index) const { return low + index * step; }
};

struct Curve {
  std::string_view label;
  double EpochMetrics::*value;
  const char* style;
};

struct Panel {
  std::string_view title;
  double factor;  ///< of values, for display
  std::array<Curve, 3> curves;
};

constexpr std::array<Panel, 2> PANELS{{
    {"loss",
     1.0,
     {{{"training", &EpochMetrics::train_loss, " stroke-dasharray=\"5 4\""},
       {"validation", &EpochMetrics::val_loss, ""},
       {"validation, averaged weights", &EpochMetrics::val_ema_loss,
        " stroke-dasharray=\"1 4\" stroke-linecap=\"round\""}}}},
    {"top-1 accuracy, %",
     100.0,
     {{{"training", &EpochMetrics::train_top1, " stroke-dasharray=\"5 4\""},
       {"validation", &EpochMetrics::val_top1, ""},
       {"validation, averaged weights", &EpochMetrics::val_ema_top1,
        " stroke-dasharray=\"1 4\" stroke-linecap=\"round\""}}}},
}};

bool has_values(std::span<const RunMetrics> runs, const Curve& curve) {
  return std::ranges::any_of(runs, [&](const RunMetrics& run) {
    return std::ranges::any_of(run.epochs,
                               [&](const EpochMetrics& epoch) { return std::isfinite(epoch.*curve.value); });
  });
}

class Drawing {
 public:
  explicit Drawing(std::span<const RunMetrics> runs) : runs_(runs) {}

  std::string str() {
    const double legend = LEGEND_LINE * static_cast<double>(runs_.size() > 1 ? runs_.size() + 1 : 1);
    out_ = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", coordinate(WIDTH), ' ',
               coordinate(HEIGHT + legend), "\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
               "<title>Loss and accuracy by epoch</title>\n<style>\n",
               ":root { color: #1b1b1b; background: #fff }\n",
               "@media (prefers-color-scheme: dark) { :root { color: #e6e6e6; background: #16181c } }\n",
               "text { fill: currentColor }\n.axis { stroke: currentColor; stroke-opacity: .18 }\n",
               ".curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }\n</style>\n");
    for (size_t i = 0; i < PANELS.size(); ++i) panel(PANELS[i], PANEL * static_cast<double>(i));
    this->legend();
    return out_ + "</svg>\n";
  }

 private:
  void panel(const Panel& panel, double left) {
    Range epochs, values;
    for (const RunMetrics& run : runs_)
      for (const EpochMetrics& epoch : run.epochs) {
        epochs.take(static_cast<double>(epoch.epoch));
        for (const Curve& curve : panel.curves) values.take(epoch.*curve.value * panel.factor);
      }
    const Axis y(values, 6);
    // Epochs are whole.
    Axis x(epochs, 8);
    x.step = std::max(1.0, x.step);
    x.low = std::floor(epochs.low);
    x.high = std::max(epochs.high, x.low + 1.0);
    const double right = left + PANEL - RIGHT, bottom = HEIGHT - BOTTOM;
    const auto x_at = [&](double v) {
      return left + LEFT + (v - x.low) / (x.high - x.low) * (right - left - LEFT);
    };
    const auto y_at = [&](double v) { return bottom - (v - y.low) / (y.high - y.low) * (bottom - TOP); };

    text(left + LEFT, TOP - 16.0, "start", panel.title, " font-weight=\"600\"");
    text(right, HEIGHT - 8.0, "end", "epoch");
    for (int i = 0; i <= y.ticks(); ++i) {
      const double at = y_at(y.tick(i));
      line(left + LEFT, at, right, at);
      text(left + LEFT - 6.0, at + 4.0, "end",
           tick_text(std::abs(y.tick(i)) < y.step * 1e-6 ? 0.0 : y.tick(i)));
    }
    for (double epoch = std::ceil(x.low / x.step) * x.step; epoch <= x.high; epoch += x.step)
      text(x_at(epoch), bottom + 18.0, "middle", tick_text(epoch));
    for (size_t run = 0; run < runs_.size(); ++run)
      for (const Curve& curve : panel.curves) this->curve(run, curve, panel.factor, x_at, y_at);
  }

  /// A line through what is finite; what stands alone is a dot.
  template <typename X, typename Y>
  void curve(size_t run, const Curve& curve, double factor, const X& x_at, const Y& y_at) {
    std::string points;
    int count = 0;
    const auto flush = [&] {
      if (count > 1)
        out_ += cat("<polyline class=\"curve\" stroke=\"", colour(run), '"', curve.style, " points=\"",
                    points, "\"/>\n");
      if (count == 1) {
        const size_t comma = points.find(',');
        out_ += cat("<circle fill=\"", colour(run), "\" r=\"2.5\" cx=\"", points.substr(0, comma), "\" cy=\"",
                    points.substr(comma + 1), "\"/>\n");
      }
      points.clear();
      count = 0;
    };
    for (const EpochMetrics& epoch : runs_[run].epochs) {
      const double value = epoch.*curve.value * factor;
      if (!std::isfinite(value)) {
        flush();
        continue;
      }
      points += cat(count++ == 0 ? "" : " ", coordinate(x_at(static_cast<double>(epoch.epoch))), ',',
                    coordinate(y_at(value)));
    }
    flush();
  }

  void legend() {
    double at = LEFT;
    const double first = HEIGHT + 4.0;
    for (const Curve& curve : PANELS[0].curves) {
      if (!has_values(runs_, curve)) continue;
      out_ += cat("<line class=\"curve\" stroke=\"", runs_.size() == 1 ? colour(0) : "currentColor", '"',
                  curve.style, " x1=\"", coordinate(at), "\" x2=\"", coordinate(at + 30.0), "\" y1=\"",
                  coordinate(first), "\" y2=\"", coordinate(first), "\"/>\n");
      text(at + 36.0, first + 4.0, "start", curve.label);
      at += 60.0 + 7.0 * static_cast<double>(curve.label.size());
    }
    if (runs_.size() == 1) {
      text(WIDTH - RIGHT, TOP - 16.0, "end", runs_[0].name);
      return;
    }
    for (size_t run = 0; run < runs_.size(); ++run) {
      const double y = first + LEGEND_LINE * static_cast<double>(run + 1);
      out_ += cat("<rect fill=\"", colour(run), "\" width=\"12\" height=\"12\" x=\"", coordinate(LEFT),
                  "\" y=\"", coordinate(y - 6.0), "\"/>\n");
      text(LEFT + 18.0, y + 4.0, "start", runs_[run].name);
    }
  }

  void text(double x, double y, std::string_view anchor, std::string_view what, std::string_view more = "") {
    out_ += cat("<text x=\"", coordinate(x), "\" y=\"", coordinate(y), "\" text-anchor=\"", anchor, '"', more,
                '>', escaped(what), "</text>\n");
  }
  void line(double x1, double y1, double x2, double y2) {
    out_ += cat("<line class=\"axis\" x1=\"", coordinate(x1), "\" y1=\"", coordinate(y1), "\" x2=\"",
                coordinate(x2), "\" y2=\"", coordinate(y2), "\"/>\n");
  }
  static const char* colour(size_t run) { return COLOURS[run % COLOURS.size()]; }

  std::span<const RunMetrics> runs_;
  std::string out_;
};

}  // namespace

std::vector<EpochMetrics> read_metrics(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  TR_CHECK(in.is_open(), IoError,
           cat(file.string(), ": cannot be read: ", std::generic_category().message(errno)));
  std::vector<EpochMetrics> epochs;
  std::string text;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    const double epoch =
        line.is_object() ? number_of(line, "epoch") : std::numeric_limits<double>::quiet_NaN();
    TR_CHECK(std::isfinite(epoch) && std::abs(epoch) < 1e9, DataError,
             cat(file.string(), ':', number,
                 ": expected an object with a number \"epoch\", as train writes to "
                 "metrics.jsonl, got ",
                 text.substr(0, 40)));
    epochs.push_back({std::llround(epoch), number_of(line, "train_loss"), number_of(line, "val_loss"),
                      number_of(line, "val_ema_loss"), number_of(line, "train_top1"),
                      number_of(line, "val_top1"), number_of(line, "val_ema_top1")});
  }
  TR_CHECK(!in.bad(), IoError, cat(file.string(), ": reading failed"));
  TR_CHECK(!epochs.empty(), DataError, cat(file.string(), ": holds no epoch yet"));
  return epochs;
}

std::string curves_svg(std::span<const RunMetrics> runs) { return Drawing(runs).str(); }

}  // namespace tr
