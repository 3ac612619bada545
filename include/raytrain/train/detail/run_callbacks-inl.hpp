// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/detail/run_callbacks.hpp>

namespace raytrain::detail {

/// For whoever has started the program; nobody may be there.
RAYTRAIN_INLINE void write_line(std::FILE* to, std::string line) {
  line += '\n';
  BrokenPipeGuard const guard;
  if (std::fwrite(line.data(), 1, line.size(), to) == line.size()) std::fflush(to);
}

RAYTRAIN_INLINE void RunCallbacks::tell(ErrorInfo const& error) {
  for (auto const& callback : callbacks_) {
    try {
      callback->on_failure(error);
    } catch (...) {
      warn(failure_of(*callback, "on_failure").text());
    }
  }
}

RAYTRAIN_INLINE void RunCallbacks::warn(std::string text) {
  auto const is_kept = keep(text);
  auto is_shown = false;
  // A callback that cannot take a warning is not warned of: that would not end.
  for (auto const& callback : callbacks_) {
    try {
      is_shown = callback->on_warning(text) || is_shown;
    } catch (...) {
      (void)keep(failure_of(*callback, "on_warning").text());
    }
  }
  if (is_kept && !is_shown) write_line(stderr, "raytrain: warning: " + text);
}

RAYTRAIN_INLINE void RunCallbacks::print(std::string const& line) {
  auto is_shown = false;
  call("on_print", [&](Callback& callback) { is_shown = callback.on_print(line) || is_shown; });
  if (!is_shown) write_line(stdout, line);
}

RAYTRAIN_INLINE auto RunCallbacks::warnings() const -> std::vector<std::string> {
  auto all = warnings_;
  if (more_warnings_ > 0) all.push_back("and " + std::to_string(more_warnings_) + " more warnings");
  return all;
}

RAYTRAIN_INLINE void RunCallbacks::on_exception(Callback const& callback, std::string_view name) {
  auto error = failure_of(callback, name);
  if (callback.critical()) {
    fail_(std::move(error));
  } else {
    warn(error.text());
  }
}

RAYTRAIN_INLINE auto RunCallbacks::failure_of(Callback const& callback, std::string_view function) -> ErrorInfo {
  auto error = current_error();
  auto const inside = error.attempted.empty() ? std::string{} : ": " + error.attempted;
  error.attempted = "callback " + demangled(typeid(callback).name()) + ", " + std::string{function} + inside;
  return error;
}

RAYTRAIN_INLINE auto RunCallbacks::keep(std::string text) -> bool {
  if (warnings_.size() == max_warnings) {
    ++more_warnings_;
    return false;
  }
  warnings_.push_back(std::move(text));
  return true;
}

}  // namespace raytrain::detail
