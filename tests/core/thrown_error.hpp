// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/core/error.hpp>

namespace raytrain::testing {

/// "code: message" of the Error that `call` throws; any other exception passes.
template <class Call>
[[nodiscard]] auto thrown_error(Call&& call) -> std::string {
  try {
    std::forward<Call>(call)();
  } catch (Error const& error) {
    return std::string{to_string(error.code())} + ": " + error.what();
  }
  return "(no Error)";
}

}  // namespace raytrain::testing
