// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>

/// "io: what(): ..." of the raytrain::Error that `call` throws; fails the test when there is none.
template <class Call>
[[nodiscard]] auto thrown_error(Call call) -> std::string {
  try {
    (void)call();
  } catch (raytrain::Error const& error) {
    return std::string{raytrain::to_string(error.code())} + ": " + error.what();
  }
  FAIL("must throw a raytrain::Error");
  return {};
}

inline void check_contains(std::string_view text, std::string_view part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string_view::npos);
}
