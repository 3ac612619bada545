// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain::detail {

/// The callbacks of a run, with the rules for one that throws, and the warnings that they were told of.
///
/// Threads: that of `fit()`.
class RunCallbacks {
 public:
  /// A critical callback that throws is told to `fail`.
  RunCallbacks(Callbacks callbacks, std::function<void(ErrorInfo)> fail)
      : callbacks_{std::move(callbacks)}, fail_{std::move(fail)} {}

  /// `name`: of the function of `Callback` that `function` calls.
  template <class F>
  void call(std::string_view name, F const& function) {
    for (auto const& callback : callbacks_) {
      try {
        function(*callback);
      } catch (...) {
        on_exception(*callback, name);
      }
    }
  }

  /// Tells of a failure. What a callback throws here is warned of: as a failure it would be told of in turn.
  void tell(ErrorInfo const& error);

  /// To stderr where no callback shows it, of those that `warnings` has.
  void warn(std::string text);

  /// To stdout where no callback shows it.
  void print(std::string const& line);

  /// The first 10,000, and how many more there were.
  [[nodiscard]] auto warnings() const -> std::vector<std::string>;

 private:
  static constexpr std::size_t max_warnings = 10'000;

  // Of the exception that is being handled.
  void on_exception(Callback const& callback, std::string_view name);
  [[nodiscard]] static auto failure_of(Callback const& callback, std::string_view function) -> ErrorInfo;

  /// Whether it is one of the first.
  [[nodiscard]] auto keep(std::string text) -> bool;

  Callbacks callbacks_;
  std::function<void(ErrorInfo)> fail_;
  std::vector<std::string> warnings_;
  std::size_t more_warnings_ = 0;  // beyond them
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/run_callbacks-inl.hpp>
#endif
