/// Errors. Every failure the library reports is a tr::Error: a kind for programs, a text for people.
/// The text says who, what was got, what was expected and what to do about it.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tr {

enum class ErrorKind : unsigned char {
  ValueError,         ///< a value out of its domain
  ShapeError,         ///< shapes that do not fit together
  IndexError,         ///< an id, rank or label out of range
  TypeError,          ///< a dtype that does not fit
  StateError,         ///< a call in the wrong phase (allocation after finalize(), …)
  NotSupportedError,  ///< no backend offers what was asked for
  RecipeError,        ///< a mistake in a recipe or model description (exit code 2)
  DataError,          ///< a file whose contents are not what they claim to be
  IoError,            ///< a file that cannot be read or written
  DeviceError,        ///< a device or vendor library failed
};

std::string_view error_kind_name(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Concatenates anything that streams: cat("batch ", n, " is too large").
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace tr

/// Throws tr::Error when `condition` is false; `message` is evaluated only then.
#define TR_CHECK(condition, kind, message)                          \
  do {                                                              \
    if (!(condition)) throw ::tr::Error(::tr::ErrorKind::kind, (message)); \
  } while (false)
