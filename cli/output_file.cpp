#include "output_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr::cli {

void write_output(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  errno = 0;
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code code = out.good() ? std::error_code() : std::error_code(errno, std::generic_category());
  if (out.good()) std::filesystem::rename(temporary, path, code);
  if (out.good() && !code) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  throw Error(ErrorKind::IoError,
              cat(path, ": cannot be written: ", code.message(), "; choose another file"));
}

}  // namespace tr::cli
