// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// What LightGBM has to say, in one line: without the place in its sources, "at FILE, line 12 .".
[[nodiscard]] inline auto readable_lightgbm_text(std::string_view text) -> std::string {
  std::string readable{text};
  std::ranges::replace(readable, '\n', ' ');
  auto const line = readable.rfind(", line ");
  auto const place = line == std::string::npos ? line : readable.rfind(" at ", line);
  if (place != std::string::npos && readable.find_first_not_of("0123456789 .", line + 7) == std::string::npos) {
    readable.resize(place);
  }
  readable.resize(readable.find_last_not_of(' ') + 1);
  return readable.empty() ? "failed without a message" : readable;
}

/// The exception that left one of raytrain's functions which LightGBM has called. `lightgbm_call` throws it again when
/// LightGBM returns.
[[nodiscard]] inline auto lightgbm_thrown() noexcept -> std::exception_ptr& {
  thread_local std::exception_ptr thrown;
  return thrown;
}

/// Throws when a function of LightGBM's C API has failed; every call of one goes through here. LightGBM also prints its
/// own errors to standard error, and cannot be kept from it.
///
/// Threads: the one that called the function, since its message is that thread's.
/// Errors:  what a collective has thrown in it; else `backend` with what LightGBM says of it.
inline void lightgbm_call(int status, std::string_view function, std::string remedy = {}) {
  if (status == 0) return;
  if (auto const thrown = std::exchange(lightgbm_thrown(), nullptr)) std::rethrow_exception(thrown);
  throw Error{Errc::backend, std::string{function}, readable_lightgbm_text(lightgbm::LGBM_GetLastError()),
              std::move(remedy)};
}

}  // namespace raytrain::detail
