/// Expects a call to throw tr::Error of a kind, with a text that contains every given part.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/error.h"

namespace tr::test {

template <typename Call>
void expect_error(ErrorKind kind, const std::vector<std::string>& parts, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error_kind_name(error.kind()), error_kind_name(kind)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "the text \"" << error.what() << "\" lacks \"" << part << '"';
    return;
  }
  ADD_FAILURE() << "expected a " << error_kind_name(kind) << ", nothing was thrown";
}

/// The same for a single part.
template <typename Call>
void refuses(ErrorKind kind, const std::string& part, const Call& call) {
  expect_error(kind, std::vector<std::string>{part}, call);
}

}  // namespace tr::test
