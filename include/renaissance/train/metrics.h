/// What a training tells its caller. Plain values; an Observer must not allocate if the run must not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace tr {

/// Means over samples; top-k as fractions 0…1.
struct Metrics {
  double loss = 0.0, top1 = 0.0, top5 = 0.0;
  int64_t samples = 0;
};

struct Progress {
  int64_t epoch = 0, epochs = 0;  ///< epoch counts from 1
  int64_t step = 0, steps = 0;    ///< steps of this epoch that are done, and all of them
  Metrics train;                  ///< since the epoch began
  double images_per_s = 0.0;      ///< since the epoch began, validation excluded
  double seconds_left = 0.0;      ///< of the whole training, from the speed so far
};

struct EpochReport {
  int64_t epoch = 0, steps = 0;  ///< epoch counts from 1; updates since the training began
  int64_t batches = 0;           ///< steps of Progress since the training began
  Metrics train, val;
  std::optional<Metrics> val_ema;  ///< of the averaged weights; nothing without EMA
  double learning_rate = 0.0;      ///< of the last step
  double seconds = 0.0;            ///< training and validation of this epoch
  double images_per_s = 0.0;       ///< training images a second, validation excluded
  int64_t skipped_steps = 0;       ///< since the training began
  bool interrupted = false;        ///< stopped before its end: `train` covers the steps done, `val` nothing
};

struct TrainResult {
  Metrics val;                     ///< after the last epoch
  std::optional<Metrics> val_ema;  ///< likewise of the averaged weights, with EMA
  double seconds = 0.0, images_per_s = 0.0;
  int64_t epochs = 0;        ///< finished ones
  bool interrupted = false;  ///< should_stop() ended it
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_progress(const Progress&) {}
  virtual void on_epoch(const EpochReport&) {}
  /// Asked after every step.
  virtual bool should_stop() { return false; }
};

/// `metrics.jsonl`: one JSON object per epoch; of one that was interrupted, the last with val_* null. Keys:
/// epoch, steps, train_loss, train_top1, train_top5, val_loss, val_top1, val_top5, learning_rate, seconds,
/// images_per_s, skipped_steps, interrupted; with EMA, of an epoch that was not interrupted, val_ema_loss,
/// val_ema_top1, val_ema_top5 too.
class MetricsFile {
 public:
  /// Of a file that is there, the lines of the first `epochs_kept` epochs stay, if those were finished.
  /// IoError when it cannot be written.
  explicit MetricsFile(const std::filesystem::path& file, int64_t epochs_kept = 0);
  void append(const EpochReport& report);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace tr
