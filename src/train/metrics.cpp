#include "renaissance/train/metrics.h"

#include <nlohmann/json.hpp>

#include "renaissance/core/error.h"

namespace tr {

MetricsFile::MetricsFile(const std::filesystem::path& file) : path_(file), out_(file, std::ios::trunc) {
  TR_CHECK(out_.is_open(), IoError, cat(file.string(), ": cannot be written"));
}

void MetricsFile::append(const EpochReport& report) {
  using Json = nlohmann::ordered_json;
  const auto validated = [&](double value) { return report.interrupted ? Json() : Json(value); };
  // nlohmann writes NaN and infinity as null, which JSON has no number for.
  const Json line{{"epoch", report.epoch},
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
  out_ << line.dump() << '\n' << std::flush;
  TR_CHECK(out_.good(), IoError, cat(path_.string(), ": writing failed; is the disk full?"));
}

}  // namespace tr
