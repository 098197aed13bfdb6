/// A file that is either the old one or the new one, whole, whatever happens while it is written.
///
///   AtomicFile file(path);     // opens path + ".tmp"
///   file.write(bytes);
///   file.commit();             // flushes to disk, renames; without it the temporary is removed
///
/// IoError names the path and the system's reason. A temporary that a killed program left is overwritten.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace tr {

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(int code) const;
  void close_file();

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Brings names made, replaced or removed in a folder to disk. IoError names it and the system's reason.
void flush_folder(const std::filesystem::path& folder);

}  // namespace tr
