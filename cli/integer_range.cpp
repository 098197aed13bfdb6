#include "integer_range.h"

#include <charconv>
#include <string>

#include "renaissance/core/error.h"

namespace tr::cli {

CLI::Validator integer_range(int64_t least, int64_t most) {
  const auto normalize = [least, most](std::string& text) -> std::string {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    if (code != std::errc() || stop != end || value < least || value > most)
      return cat("is '", text, "'; expected an integer from ", least, " to ", most);
    text = cat(value);
    return "";
  };
  return {normalize, ""};
}

}  // namespace tr::cli
