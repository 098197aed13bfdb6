/// A file that the user asked for: the old one or the new one, whole, whatever happens while it is written.
#pragma once

#include <string>
#include <string_view>

namespace tr::cli {

/// Writes `path` through a temporary beside it. IoError names the path and the system's reason.
void write_output(const std::string& path, std::string_view text);

}  // namespace tr::cli
