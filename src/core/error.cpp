#include "renaissance/core/error.h"

namespace tr {

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::ValueError:
      return "ValueError";
    case ErrorKind::ShapeError:
      return "ShapeError";
    case ErrorKind::IndexError:
      return "IndexError";
    case ErrorKind::TypeError:
      return "TypeError";
    case ErrorKind::StateError:
      return "StateError";
    case ErrorKind::NotSupportedError:
      return "NotSupportedError";
    case ErrorKind::RecipeError:
      return "RecipeError";
    case ErrorKind::DataError:
      return "DataError";
    case ErrorKind::IoError:
      return "IoError";
    case ErrorKind::DeviceError:
      return "DeviceError";
  }
  return "Error";
}

}  // namespace tr
