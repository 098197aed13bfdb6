#include "renaissance/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "renaissance/core/error.h"
#include "tensorboard_event.pb.h"

namespace tr {

namespace {

constexpr std::string_view PREFIX = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t CASTAGNOLI = 0x82f63b78u;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? CASTAGNOLI : 0u);
    table[i] = value;
  }
  return table;
}

/// CRC-32C, rotated and offset as TFRecord wants it.
uint32_t masked_crc(std::string_view data) {
  static constexpr std::array<uint32_t, 256> TABLE = crc_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = TABLE[(crc ^ static_cast<unsigned char>(c)) & 0xffu] ^ (crc >> 8);
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <typename Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder) {
  // Two runs may begin in one second, in one process even.
  for (int64_t seconds = static_cast<int64_t>(now());; ++seconds) {
    path_ = folder / cat(PREFIX, seconds, '.', host_name(), '.', ::getpid());
    if (!std::filesystem::exists(path_)) break;
  }
  errno = 0;
  out_.open(path_, std::ios::binary);
  TR_CHECK(out_.is_open(), IoError,
           cat(path_.string(), ": cannot be written: ", std::generic_category().message(errno)));
  tensorboard::Event event;
  event.set_wall_time(now());
  event.set_file_version("brain.Event:2");
  write_record(event.SerializeAsString());
}

void TensorBoardFile::append(const Progress& progress) {
  write((progress.epoch - 1) * progress.steps + progress.step,
        {{"train/loss", progress.train.loss},
         {"train/top1", progress.train.top1},
         {"train/top5", progress.train.top5},
         {"train/images_per_s", progress.images_per_s}});
}

void TensorBoardFile::append(const EpochReport& report) {
  if (report.interrupted) return;
  Scalars scalars{{"val/loss", report.val.loss},
                  {"val/top1", report.val.top1},
                  {"val/top5", report.val.top5},
                  {"train/learning_rate", report.learning_rate},
                  {"train/skipped_steps", static_cast<double>(report.skipped_steps)},
                  {"epoch", static_cast<double>(report.epoch)}};
  if (report.val_ema.has_value())
    scalars.insert(scalars.end(), {{"val_ema/loss", report.val_ema->loss},
                                   {"val_ema/top1", report.val_ema->top1},
                                   {"val_ema/top5", report.val_ema->top5}});
  write(report.batches, scalars);
}

void TensorBoardFile::write(int64_t step, const Scalars& scalars) {
  tensorboard::Event event;
  event.set_wall_time(now());
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    tensorboard::Summary::Value* entry = event.mutable_summary()->add_value();
    entry->set_tag(std::string(tag));
    entry->set_simple_value(static_cast<float>(value));
  }
  write_record(event.SerializeAsString());
}

void TensorBoardFile::write_record(const std::string& data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  out_ << length << little_endian(masked_crc(length)) << data << little_endian(masked_crc(data))
       << std::flush;
  TR_CHECK(out_.good(), IoError, cat(path_.string(), ": writing failed; is the disk full?"));
}

bool is_tensorboard_file(const std::filesystem::path& file) {
  return file.filename().string().starts_with(PREFIX);
}

}  // namespace tr
