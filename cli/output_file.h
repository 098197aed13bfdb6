/// Files that the user asked for.
#pragma once

#include <string>
#include <string_view>

namespace tr::cli {

/// Writes `text` to `path`; "-" is standard output. A file is replaced as a whole, through a temporary of an
/// unused name beside it, and keeps its permissions; of a symbolic link, what it points to is. What is no
/// regular file (a pipe, a device) and what standard output already goes to is written into. IoError names
/// the path and the system's reason.
void write_output(const std::string& path, std::string_view text);

/// ValueError where `option` sends a file to standard output ("-") that --json takes.
void check_output(const std::string& option, const std::string& path, bool json);

}  // namespace tr::cli
