// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// What kind of thing went wrong. The numbers are stable: they may be stored and compared across versions.
enum class Errc : std::uint16_t {
  invalid_config = 1,      ///< A configuration field has a value that cannot work; thrown before anything starts.
  invalid_data = 2,        ///< A data file or a dataset is not what it should be.
  invalid_report = 3,      ///< A report or checkpoint that cannot be accepted.
  invalid_call = 4,        ///< A function called at the wrong time, from the wrong thread or with wrong arguments.
  not_found = 5,           ///< A name or a file that does not exist; the message lists those that do.
  io = 6,                  ///< The operating system refused to read or write.
  corrupt_checkpoint = 7,  ///< A checkpoint whose bytes are not those that were committed.
  foreign_run = 8,         ///< A run, or a checkpoint, of another program, backend or report, or by a newer raytrain.
  rank_mismatch = 9,       ///< Ranks that should do the same thing did different things.
  worker_failed = 10,      ///< A worker was lost or cannot start; also `TrainingFailed` itself.
  bad_message = 11,        ///< Bytes that are not a message of this protocol version.
  backend = 12,            ///< A library underneath (LibTorch, MPI, ...) reported an error.
  timed_out = 13,          ///< Something did not come within the time that the configuration allows for it.
  exception = 14,          ///< An exception that is no `Error`: of the training function, a callback or a library.
  not_retryable = 15,      ///< `NotRetryable`: starting the workers again would not help.
};

/// Name of a code as it is written in this header, for logs.
[[nodiscard]] constexpr auto to_string(Errc code) noexcept -> std::string_view {
  switch (code) {
    case Errc::invalid_config: return "invalid_config";
    case Errc::invalid_data: return "invalid_data";
    case Errc::invalid_report: return "invalid_report";
    case Errc::invalid_call: return "invalid_call";
    case Errc::not_found: return "not_found";
    case Errc::io: return "io";
    case Errc::corrupt_checkpoint: return "corrupt_checkpoint";
    case Errc::foreign_run: return "foreign_run";
    case Errc::rank_mismatch: return "rank_mismatch";
    case Errc::worker_failed: return "worker_failed";
    case Errc::bad_message: return "bad_message";
    case Errc::backend: return "backend";
    case Errc::timed_out: return "timed_out";
    case Errc::exception: return "exception";
    case Errc::not_retryable: return "not_retryable";
  }
  return "unknown";
}

/// The one exception that raytrain throws on purpose: what was attempted, what happened with the value, what to do.
class Error : public std::runtime_error {
 public:
  Error(Errc code, std::string attempted, std::string happened, std::string remedy = {})
      : std::runtime_error(attempted + ": " + happened + (remedy.empty() ? "" : "; " + remedy)),
        code_{code},
        attempted_{std::move(attempted)},
        happened_{std::move(happened)},
        remedy_{std::move(remedy)} {}

  [[nodiscard]] auto code() const noexcept -> Errc { return code_; }
  [[nodiscard]] auto attempted() const noexcept -> std::string const& { return attempted_; }
  [[nodiscard]] auto happened() const noexcept -> std::string const& { return happened_; }
  /// Empty when there is nothing that the reader could do.
  [[nodiscard]] auto remedy() const noexcept -> std::string const& { return remedy_; }

 private:
  Errc code_;
  std::string attempted_;
  std::string happened_;
  std::string remedy_;
};

/// What a training function throws where starting the workers again would not help: it ends the run whatever
/// `FailureConfig::max_failures` says.
class NotRetryable : public Error {
 public:
  NotRetryable(std::string attempted, std::string happened, std::string remedy = {})
      : Error{Errc::not_retryable, std::move(attempted), std::move(happened), std::move(remedy)} {}
};

/// The text, or its beginning and how many bytes of it are left out.
[[nodiscard]] inline auto shortened(std::string text, std::size_t most_bytes) -> std::string {
  if (text.size() <= most_bytes) return text;
  auto const left_out = text.size() - most_bytes;
  text.resize(most_bytes);
  return std::move(text) + " ... (" + std::to_string(left_out) + " bytes more)";
}

/// What went wrong and where, as a value: the parts of an `Error`, or of another exception.
struct ErrorInfo {
  ErrorInfo() = default;
  ErrorInfo(Errc code_, std::string attempted_, std::string happened_, std::string remedy_ = {})
      : code{code_}, attempted{std::move(attempted_)}, happened{std::move(happened_)}, remedy{std::move(remedy_)} {}
  explicit ErrorInfo(Error const& error)
      : ErrorInfo{error.code(), error.attempted(), error.happened(), error.remedy()} {}

  [[nodiscard]] auto with_origin(std::optional<Rank> rank_, std::string host_) && -> ErrorInfo {
    rank = rank_;
    host = std::move(host_);
    return std::move(*this);
  }

  /// With parts of at most so many bytes each.
  [[nodiscard]] auto with_short_texts(std::size_t most_bytes) && -> ErrorInfo {
    for (auto* const part : {&attempted, &happened, &remedy}) *part = shortened(std::move(*part), most_bytes);
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
  std::optional<Rank> rank;  ///< Unset: the controller's own work failed.
  std::string host;          ///< Empty where it is not known.
  friend auto operator==(ErrorInfo const&, ErrorInfo const&) -> bool = default;
};

/// Thrown on a worker's thread by a call that would wait or go on although the run is being stopped.
///
/// It unwinds the training function; a worker that ends by it has not failed. Not an `Error`: who catches those lets
/// it pass. Who catches every exception should throw it on, since every later collective throws it again.
class Stopped : public std::exception {
 public:
  [[nodiscard]] auto what() const noexcept -> char const* override { return "the run is being stopped"; }
};

}  // namespace raytrain
