// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// What went wrong and where, as a value: the parts of an `Error`, or of another exception.
struct ErrorInfo {
  ErrorInfo() = default;
  ErrorInfo(Errc code_, std::string attempted_, std::string happened_, std::string remedy_ = {})
      : code{code_}, attempted{std::move(attempted_)}, happened{std::move(happened_)}, remedy{std::move(remedy_)} {}
  explicit ErrorInfo(Error const& error)
      : ErrorInfo{error.code(), error.attempted(), error.happened(), error.remedy()} {}

  [[nodiscard]] auto with_place(std::optional<Rank> rank_, std::string host_) && -> ErrorInfo {
    rank = rank_;
    host = std::move(host_);
    return std::move(*this);
  }

  /// As what() of the exception that it was.
  [[nodiscard]] auto text() const -> std::string {
    return (attempted.empty() ? "" : attempted + ": ") + happened + (remedy.empty() ? "" : "; " + remedy);
  }

  Errc code = Errc::exception;
  std::string attempted;     ///< Empty where nobody has said it, as of most exceptions that are no `Error`.
  std::string happened;      ///< The whole text of an exception that is no `Error`.
  std::string remedy;        ///< Empty when there is nothing that the reader could do.
  std::optional<Rank> rank;  ///< None: no worker's, but of what the controller does for the run.
  std::string host;          ///< Empty where it is not known.
  friend auto operator==(ErrorInfo const&, ErrorInfo const&) -> bool = default;
};

}  // namespace raytrain
