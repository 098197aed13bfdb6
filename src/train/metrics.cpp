#include "renaissance/train/metrics.h"

#include <nlohmann/json.hpp>
#include <span>

#include "renaissance/core/error.h"
#include "train/atomic_file.h"

namespace tr {

namespace {

/// Whether a line is a finished epoch's, of those that stay. The last line of a killed program may be half
/// one.
bool stays(const std::string& line, int64_t epochs_kept) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("epoch") || !parsed["epoch"].is_number_integer()) return false;
  return parsed["epoch"].get<int64_t>() <= epochs_kept &&
         (!parsed.contains("interrupted") || parsed["interrupted"] == false);
}

std::string lines_that_stay(const std::filesystem::path& file, int64_t epochs_kept) {
  std::ifstream in(file, std::ios::binary);
  std::string kept, line;
  while (epochs_kept > 0 && std::getline(in, line))
    if (stays(line, epochs_kept)) kept += line + '\n';
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, int64_t epochs_kept) : path_(file) {
  const std::string kept = lines_that_stay(file, epochs_kept);
  if (!kept.empty()) {
    AtomicFile whole(file);
    whole.write(std::as_bytes(std::span(kept)));
    whole.commit();
  }
  out_.open(file, kept.empty() ? std::ios::trunc : std::ios::app);
  TR_CHECK(out_.is_open(), IoError, cat(file.string(), ": cannot be written"));
}

void MetricsFile::append(const EpochReport& report) {
  using Json = nlohmann::ordered_json;
  const auto validated = [&](double value) { return report.interrupted ? Json() : Json(value); };
  // nlohmann writes NaN and infinity as null, which JSON has no number for.
  Json line{{"epoch", report.epoch},
            {"steps", report.steps},
            {"train_loss", report.train.loss},
            {"train_top1", report.train.top1},
            {"train_top5", report.train.top5},
            {"val_loss", validated(report.val.loss)},
            {"val_top1", validated(report.val.top1)},
            {"val_top5", validated(report.val.top5)},
            {"learning_rate", report.learning_rate},
            {"seconds", report.seconds},
            {"images_per_s", report.images_per_s},
            {"skipped_steps", report.skipped_steps},
            {"interrupted", report.interrupted}};
  if (report.val_ema) {
    line["val_ema_loss"] = report.val_ema->loss;
    line["val_ema_top1"] = report.val_ema->top1;
    line["val_ema_top5"] = report.val_ema->top5;
  }
  out_ << line.dump() << '\n' << std::flush;
  TR_CHECK(out_.good(), IoError, cat(path_.string(), ": writing failed; is the disk full?"));
}

}  // namespace tr
