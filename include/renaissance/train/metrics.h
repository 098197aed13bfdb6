/// What a training tells its caller. Plain values; an Observer must not allocate if the run must not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace tr {

/// Means over samples; top-k as fractions 0…1.
struct Metrics {
  double loss = 0.0, top1 = 0.0, top5 = 0.0;
  int64_t samples = 0;
};

struct Progress {
  int64_t epoch = 0, epochs = 0;          ///< epoch counts from 1
  int64_t step = 0, steps = 0;            ///< steps of this epoch that are done, and all of them
  Metrics train;                          ///< since the epoch began
  double images_per_s = 0.0;              ///< since the epoch began, validation excluded
  double seconds_left = 0.0;              ///< of the whole training, from the speed so far
};

struct EpochReport {
  int64_t epoch = 0, steps = 0;           ///< epoch counts from 1; steps since the training began
  Metrics train, val;
  double learning_rate = 0.0;             ///< of the last step
  double seconds = 0.0;                   ///< training and validation of this epoch
  double images_per_s = 0.0;              ///< training images a second, validation excluded
  int64_t skipped_steps = 0;              ///< since the training began
  bool interrupted = false;               ///< stopped before its end: `train` covers the steps done, `val` nothing
};

struct TrainResult {
  Metrics val;                            ///< after the last epoch
  double seconds = 0.0, images_per_s = 0.0;
  int64_t epochs = 0;                     ///< finished ones
  bool interrupted = false;               ///< should_stop() ended it
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_progress(const Progress&) {}
  virtual void on_epoch(const EpochReport&) {}
  /// Asked after every step.
  virtual bool should_stop() { return false; }
};

/// `metrics.jsonl`: one JSON object per epoch; of one that was interrupted, the last with val_* null. Keys: epoch, steps, train_loss, train_top1,
/// train_top5, val_loss, val_top1, val_top5, learning_rate, seconds, images_per_s, skipped_steps, interrupted.
class MetricsFile {
 public:
  /// IoError when the file cannot be written.
  explicit MetricsFile(const std::filesystem::path& file);
  void append(const EpochReport& report);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace tr
