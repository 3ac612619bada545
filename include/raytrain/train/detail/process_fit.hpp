// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// One call of `fit()` in a program with a supervisor (`Launch::processes`, `Launch::mpirun`). A program may make
/// several, one after the other, and the worker processes of a later one come past the earlier ones: there these calls
/// give what they have given in the program, but for the history and the checkpoints, which they read from the run's
/// folder as it is then.
class ProcessFit {
 public:
  /// Errors: `invalid_call` while another one of this process has not returned, and inside a worker.
  ProcessFit();
  ProcessFit(ProcessFit const&) = delete;
  auto operator=(ProcessFit const&) -> ProcessFit& = delete;
  ~ProcessFit();

  /// Whether there is one in this process.
  [[nodiscard]] static auto is_running() noexcept -> bool;

  [[nodiscard]] auto number() const noexcept -> std::uint32_t { return number_; }

  /// In the program: where what earlier calls have given is read.
  [[nodiscard]] auto results() const -> int;

  /// In the program: what this call gives.
  void keep(Ended const& ended) const;

  /// In a worker process, which is for that `fit`: what this call has given, as the file `results` says; none when it
  /// is the one that the process is for.
  [[nodiscard]] auto result(std::uint32_t fit, int results) const -> std::optional<Ended>;

 private:
  std::uint32_t number_ = 0;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/process_fit-inl.hpp>
#endif
