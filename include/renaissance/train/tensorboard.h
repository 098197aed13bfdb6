/// TensorBoard event files: scalars that `tensorboard --logdir` draws.
/// Format: TFRecord framing (length, masked CRC-32C of it, data, masked CRC-32C of them) around protobuf
/// Events; https://www.tensorflow.org/tutorials/load_data/tfrecord and tensorboard/compat/proto/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "renaissance/train/metrics.h"

namespace tr {

/// One file of one run: events.out.tfevents.<seconds>.<host>.<process>. A resumed run adds a second file, and
/// TensorBoard joins them. The step of every value counts from the training's beginning, over epochs.
class TensorBoardFile {
 public:
  /// A new file in `folder`; IoError when it cannot be written.
  explicit TensorBoardFile(const std::filesystem::path& folder);

  /// train/loss, train/top1, train/top5: means since the epoch began; train/images_per_s.
  void append(const Progress& progress);
  /// val/… and, where there are averaged weights, val_ema/…, train/learning_rate, train/skipped_steps;
  /// nothing of an epoch that was interrupted.
  void append(const EpochReport& report);

  const std::filesystem::path& path() const { return path_; }

 private:
  using Scalars = std::vector<std::pair<std::string_view, double>>;
  void write(int64_t step, const Scalars& scalars);
  void write_record(const std::string& data);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// True for the names that TensorBoardFile gives its files.
bool is_tensorboard_file(const std::filesystem::path& file);

}  // namespace tr
