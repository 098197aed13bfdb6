#include "run_folder.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> FILES{"recipe.yaml", "plan.txt", "metrics.jsonl",
                                                "weights.safetensors"};

std::string reason(int code) { return std::generic_category().message(code); }

/// `path`, or the nearest folder above it that exists.
fs::path nearest_existing(const fs::path& path) {
  fs::path at = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(fs::symlink_status(at, ignored)) && at != at.parent_path()) at = at.parent_path();
  return at;
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool overwrite) : path_(path) {
  const fs::path existing = nearest_existing(path);
  std::error_code code;
  TR_CHECK(fs::is_directory(existing, code), IoError,
           cat("run folder ", path.string(), " cannot be made: ", existing.string(),
               " is not a folder; choose another --run-dir"));
  TR_CHECK(::access(existing.c_str(), W_OK | X_OK) == 0, IoError,
           cat("run folder ", path.string(), " cannot be written: ", existing.string(), ": ", reason(errno),
               "; choose another --run-dir"));
  if (overwrite) return;
  for (const std::string_view name : FILES)
    TR_CHECK(!fs::exists(fs::symlink_status(path / name, code)), IoError,
             cat("run folder ", path.string(), " holds a run already (", name,
                 "), which is not written over; choose another --run-dir or pass --overwrite"));
}

void RunFolder::create() const {
  std::error_code code;
  fs::create_directories(path_, code);
  TR_CHECK(!code, IoError, cat("run folder ", path_.string(), " cannot be made: ", code.message()));
  for (const std::string_view name : FILES) {
    fs::remove(path_ / name, code);
    TR_CHECK(!code, IoError, cat((path_ / name).string(), ": cannot be removed: ", code.message()));
  }
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  const fs::path file = path_ / name;
  errno = 0;
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  TR_CHECK(out.good(), IoError, cat(file.string(), ": cannot be written: ", reason(errno)));
}

}  // namespace tr::cli
