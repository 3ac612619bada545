// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>

namespace raytrain::testing {

/// "code: what(): ..." of the Error that `call` throws; fails the test when there is none. Any other exception passes.
template <class Call>
[[nodiscard]] auto thrown_error(Call const& call) -> std::string {
  try {
    (void)call();
  } catch (Error const& error) {
    return std::string{to_string(error.code())} + ": " + error.what();
  }
  FAIL_CHECK("must throw a raytrain::Error");
  return "(no Error)";
}

inline void check_contains(std::string_view text, std::string_view part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string_view::npos);
}

}  // namespace raytrain::testing
