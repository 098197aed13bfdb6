// The files of a training's checkpoints: names, order, which stay.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "renaissance/core/error.h"
#include "renaissance/train/checkpoint.h"
#include "train/atomic_file.h"

namespace tr {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view SUFFIX = ".safetensors", TEMPORARY = ".safetensors.tmp";

/// Takes `text` off the front of `rest`.
bool take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

bool take_number(std::string_view& rest, int64_t& number) {
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (code != std::errc() || number < 0) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return true;
}

/// Nothing for a name that is not a checkpoint's.
std::optional<CheckpointFolder::Entry> read_name(const fs::path& file) {
  const std::string name = file.filename().string();
  std::string_view rest = name;
  CheckpointFolder::Entry entry{file};
  if (!take(rest, "epoch-") || !take_number(rest, entry.epochs)) return std::nullopt;
  if (take(rest, "-step-") && !take_number(rest, entry.epoch_steps)) return std::nullopt;
  if (rest != SUFFIX) return std::nullopt;
  return entry;
}

std::string name_of(const TrainingProgress& progress) {
  std::array<char, 80> name{};
  const auto epochs = static_cast<long long>(progress.epochs),
             steps = static_cast<long long>(progress.epoch_steps);
  if (steps == 0)
    std::snprintf(name.data(), name.size(), "epoch-%04lld.safetensors", epochs);
  else
    std::snprintf(name.data(), name.size(), "epoch-%04lld-step-%06lld.safetensors", epochs, steps);
  return name.data();
}

std::pair<int64_t, int64_t> place_of(const CheckpointFolder::Entry& entry) {
  return {entry.epochs, entry.epoch_steps};
}

void remove_file(const fs::path& file) {
  std::error_code code;
  fs::remove(file, code);
  TR_CHECK(!code, IoError, cat(file.string(), ": cannot be removed: ", code.message()));
}

/// `to` becomes another name of `from`'s bytes, at once. false where the file system has no such names.
bool link_over(const fs::path& from, const fs::path& to) {
  fs::path temporary = to;
  temporary += ".tmp";
  ::unlink(temporary.c_str());
  if (::link(from.c_str(), temporary.c_str()) != 0) return false;
  if (std::rename(temporary.c_str(), to.c_str()) != 0) return false;
  ::unlink(temporary.c_str());  // still there where `to` was the same file already
  flush_folder(to.parent_path());
  return true;
}

/// What a program that was killed while it wrote left.
bool is_half(const fs::path& file) { return file.filename().string().ends_with(TEMPORARY); }

/// Paths in the folder, none where it does not exist.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  if (!fs::exists(folder, code) && !code) return files;
  fs::directory_iterator iterator(folder, code);
  for (; !code && iterator != fs::directory_iterator(); iterator.increment(code))
    files.push_back(iterator->path());
  TR_CHECK(!code, IoError, cat(folder.string(), ": cannot be read: ", code.message()));
  return files;
}

}  // namespace

std::vector<CheckpointFolder::Entry> CheckpointFolder::entries() const {
  std::vector<Entry> entries;
  for (const fs::path& file : files_in(path_))
    if (std::optional<Entry> entry = read_name(file)) entries.push_back(std::move(*entry));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return place_of(a) > place_of(b); });
  return entries;
}

void CheckpointFolder::make() const {
  std::error_code code;
  fs::create_directories(path_, code);
  TR_CHECK(!code, IoError, cat(path_.string(), ": cannot be made: ", code.message()));
}

void CheckpointFolder::write(const fs::path& file, const StateDict& checkpoint) const {
  try {
    write_safetensors(file, checkpoint);
  } catch (const Error& error) {
    const std::vector<Entry> left = entries();
    throw Error(error.kind(),
                cat(error.what(),
                    left.empty() ? "; there is no older checkpoint" : "; the last checkpoint is whole: ",
                    left.empty() ? "" : left.front().file.string()));
  }
}

void CheckpointFolder::add(const StateDict& checkpoint, const TrainingProgress& progress, int64_t keep_last,
                           bool is_best) const {
  make();
  const fs::path file = path_ / name_of(progress);
  // The best one first: a program that is killed in between goes on from before it, and writes it again.
  if (is_best) write(best(), checkpoint);
  if (!is_best || !link_over(best(), file)) write(file, checkpoint);
  int64_t kept = 0;
  for (const Entry& entry : entries()) {
    const bool further = place_of(entry) > std::pair(progress.epochs, progress.epoch_steps);
    if (further || ++kept > keep_last) remove_file(entry.file);
  }
  for (const fs::path& left : files_in(path_))
    if (is_half(left)) remove_file(left);
}

void CheckpointFolder::write_best(const StateDict& checkpoint) const {
  make();
  write(best(), checkpoint);
}

void CheckpointFolder::clear() const {
  for (const fs::path& file : files_in(path_)) {
    const bool ours = read_name(file).has_value() || file == best() || is_half(file);
    if (ours) remove_file(file);
  }
}

std::optional<NewestCheckpoint> newest_checkpoint(const CheckpointFolder& folder) {
  NewestCheckpoint newest;
  std::vector<fs::path> files;
  for (const CheckpointFolder::Entry& entry : folder.entries()) files.push_back(entry.file);
  // As old as its epoch, but whole where none of the others is.
  std::error_code code;
  if (fs::exists(folder.best(), code)) files.push_back(folder.best());
  for (const fs::path& file : files) {
    try {
      newest.state = read_safetensors(file);
      checkpoint_info(newest.state, file.string());
      newest.file = file;
      return newest;
    } catch (const Error& error) {
      newest.passed_over.emplace_back(error.what());
    }
  }
  if (newest.passed_over.empty()) return std::nullopt;
  std::string text = cat(folder.path().string(), ": no checkpoint is whole");
  for (const std::string& line : newest.passed_over) text += "\n  " + line;
  throw Error(ErrorKind::DataError, text);
}

}  // namespace tr
