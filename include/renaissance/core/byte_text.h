/// Numbers of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tr {

/// "1.50 GiB"; below 1 KiB "512 B".
std::string human_bytes(int64_t bytes);
/// "1.50 GiB (1610612736)"
std::string human_and_exact(int64_t bytes);

}  // namespace tr
