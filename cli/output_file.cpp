#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr::cli {

namespace {

[[noreturn]] void fail(const std::string& path, int code) {
  throw Error(ErrorKind::IoError, cat(path, ": cannot be written: ", std::generic_category().message(code),
                                      "; choose another file"));
}

/// 0, or the system's error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

/// Closes too, and reports the first error of the two.
int write_and_close(int descriptor, std::string_view text) {
  const int code = write_all(descriptor, text);
  return ::close(descriptor) != 0 && code == 0 ? errno : code;
}

void write_standard_output(std::string_view text) {
  std::cout.flush();
  if (const int code = write_all(STDOUT_FILENO, text); code != 0) fail("standard output", code);
}

/// `creation` is O_CREAT or 0: some systems refuse to open others' pipes with it.
void write_into(const std::string& path, int creation, std::string_view text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | creation, 0666);
  if (descriptor < 0) fail(path, errno);
  if (const int code = write_and_close(descriptor, text); code != 0) fail(path, code);
}

struct Temporary {
  std::string path;
  int descriptor = -1;
};

/// A new file beside `target`.
Temporary make_temporary(const std::string& path, const std::string& target) {
  for (int number = 0;; ++number) {
    Temporary temporary{cat(target, ".", ::getpid(), "-", number, ".tmp")};
    temporary.descriptor = ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (temporary.descriptor >= 0) return temporary;
    if (errno != EEXIST) fail(path, errno);
  }
}

/// `old` is what `target` is now; null where it is new.
void replace(const std::string& path, const std::string& target, const struct stat* old,
             std::string_view text) {
  const Temporary temporary = make_temporary(path, target);
  int code = old != nullptr && ::fchmod(temporary.descriptor, old->st_mode & 07777) != 0 ? errno : 0;
  const int write_code = write_and_close(temporary.descriptor, text);
  if (code == 0) code = write_code;
  if (code == 0 && std::rename(temporary.path.c_str(), target.c_str()) != 0) code = errno;
  if (code == 0) return;
  ::unlink(temporary.path.c_str());
  fail(path, code);
}

bool is_standard_output(const struct stat& file) {
  struct stat output {};
  return ::fstat(STDOUT_FILENO, &output) == 0 && output.st_dev == file.st_dev && output.st_ino == file.st_ino;
}

}  // namespace

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") return write_standard_output(text);
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) {
    // A link to nothing is followed by opening it, where renaming would replace the link.
    const bool is_link = ::lstat(path.c_str(), &file) == 0;
    return is_link ? write_into(path, O_CREAT, text) : replace(path, path, nullptr, text);
  }
  if (!S_ISREG(file.st_mode)) return write_into(path, 0, text);
  if (is_standard_output(file)) return write_standard_output(text);
  std::error_code code;
  const std::string target = std::filesystem::canonical(path, code).string();
  if (code) fail(path, code.value());
  replace(path, target, &file, text);
}

void check_output(const std::string& option, const std::string& path, bool json) {
  TR_CHECK(path != "-" || !json, ValueError,
           cat(option, " is '-' and --json is given, both for standard output; give ", option, " a file"));
}

}  // namespace tr::cli
