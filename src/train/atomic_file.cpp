#include "train/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr {

namespace {

/// What a link points to is replaced, not the link; a device or a pipe is not.
std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::path target =
      std::filesystem::is_symlink(path, code) ? std::filesystem::weakly_canonical(path, code) : path;
  const std::filesystem::file_status status = std::filesystem::status(target, code);
  TR_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), IoError,
           cat(path.string(), ": cannot write: it is a ",
               std::filesystem::is_directory(status) ? "directory" : "device or a pipe", "; name a file"));
  return target;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(target_of(path)), temporary_(path_) {
  temporary_ += ".tmp";
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(int code) const {
  throw Error(ErrorKind::IoError,
              cat(path_.string(), ": cannot write: ", std::generic_category().message(code)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail(errno);
  close_file();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  committed_ = true;
  flush_folder(path_.parent_path());
}

void AtomicFile::close_file() {
  const int result = ::close(descriptor_);
  descriptor_ = -1;  // released even when close() fails
  if (result != 0) fail(errno);
}

void flush_folder(const std::filesystem::path& folder) {
  const auto fail = [&](int code) {
    throw Error(ErrorKind::IoError,
                cat(folder.string(), ": cannot be flushed: ", std::generic_category().message(code)));
  };
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EACCES) return;  // a folder that may be written but not read cannot be flushed
    return fail(errno);
  }
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some file systems do not flush folders and say so with EINVAL.
  if (code != 0 && code != EINVAL) fail(code);
}

}  // namespace tr
