#include "run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "renaissance/core/error.h"
#include "renaissance/train/tensorboard.h"

namespace tr::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> FILES{"recipe.yaml", "plan.txt", "metrics.jsonl",
                                                "weights.safetensors", "weights_ema.safetensors"};

std::string reason(int code) { return std::generic_category().message(code); }

/// `path`, or the nearest folder above it that exists.
fs::path nearest_existing(const fs::path& path) {
  fs::path at = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(fs::symlink_status(at, ignored)) && at != at.parent_path()) at = at.parent_path();
  return at;
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool may_hold_run) : path_(path) {
  const fs::path existing = nearest_existing(path);
  std::error_code code;
  TR_CHECK(fs::is_directory(existing, code), IoError,
           cat("run folder ", path.string(), " cannot be made: ", existing.string(),
               " is not a folder; choose another --run-dir"));
  TR_CHECK(::access(existing.c_str(), W_OK | X_OK) == 0, IoError,
           cat("run folder ", path.string(), " cannot be written: ", existing.string(), ": ", reason(errno),
               "; choose another --run-dir"));
  if (may_hold_run) return;
  const auto refuse = [&](std::string_view name, bool found) {
    TR_CHECK(
        !found, IoError,
        cat("run folder ", path.string(), " holds a run already (", name,
            "), which is not written over; choose another --run-dir, or pass --resume to go on with it or "
            "--overwrite"));
  };
  for (const std::string_view name : FILES) refuse(name, fs::exists(fs::symlink_status(path / name, code)));
  for (const fs::directory_entry& entry : fs::directory_iterator(path, code))
    refuse(entry.path().filename().string(), is_tensorboard_file(entry.path()));
  refuse("checkpoints", !checkpoints().entries().empty() || fs::exists(checkpoints().best(), code));
}

void RunFolder::check_begins() const {
  std::error_code code;
  TR_CHECK(
      !fs::exists(fs::symlink_status(weights(), code)), IoError,
      cat("run folder ", path_.string(),
          " holds the weights of a training that left no checkpoint to go on from; choose another --run-dir "
          "or pass --overwrite instead of --resume"));
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::lock() {
  if (lock_ < 0) lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A file system that has no locks does not stop a training.
  const bool is_taken = lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TR_CHECK(!is_taken, IoError,
           cat("run folder ", path_.string(),
               ": another training writes here; wait for its end or choose another "
               "--run-dir"));
}

void RunFolder::create() {
  std::error_code code;
  fs::create_directories(path_, code);
  TR_CHECK(!code, IoError, cat("run folder ", path_.string(), " cannot be made: ", code.message()));
  lock();
  for (const std::string_view name : FILES) {
    fs::remove(path_ / name, code);
    TR_CHECK(!code, IoError, cat((path_ / name).string(), ": cannot be removed: ", code.message()));
  }
  checkpoints().clear();
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, code)) {
    if (!is_tensorboard_file(entry.path())) continue;
    std::error_code failed;
    fs::remove(entry.path(), failed);
    TR_CHECK(!failed, IoError, cat(entry.path().string(), ": cannot be removed: ", failed.message()));
  }
  TR_CHECK(!code, IoError, cat("run folder ", path_.string(), " cannot be read: ", code.message()));
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  const fs::path file = path_ / name, temporary = path_ / cat(name, ".tmp");
  errno = 0;
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  TR_CHECK(out.good() && std::rename(temporary.c_str(), file.c_str()) == 0, IoError,
           cat(file.string(), ": cannot be written: ", reason(errno)));
}

}  // namespace tr::cli
