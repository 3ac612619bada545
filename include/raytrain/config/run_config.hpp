// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/checkpoint_source.hpp>
#include <raytrain/config/failure_config.hpp>

namespace raytrain {

/// What `fit()` does with a run directory that is already there.
enum class Resume : std::uint8_t {
  automatic,  ///< Go on from its newest complete checkpoint; start at the beginning where there is none.
  fresh,      ///< Delete that run's record and checkpoints, then start at the beginning. Of links, only the link goes.
};

/// What `fit()` on threads does with a worker that has not returned when `RunConfig::return_grace` is over.
enum class OnHang : std::uint8_t {
  wait,          ///< Warns of it, and waits: nothing ends a thread from outside.
  exit_process,  ///< Says so on stderr and ends the process with exit status 75, as it always does on ranks.
};

/// Where a run lives on disk, and how it starts and stops.
struct RunConfig {
  static constexpr std::size_t max_metadata_bytes = 64 << 10U;  ///< Of all keys and values together.

  std::string name{};                          ///< Folder below `storage_path`; empty: the program's name.
  std::filesystem::path storage_path{"runs"};  ///< Created when missing.
  CheckpointConfig checkpoint{};
  FailureConfig failure{};
  Resume resume = Resume::automatic;
  /// Another run's checkpoint, with which the workers begin while this run has none of its own: fine-tuning.
  CheckpointSource resume_from_checkpoint{};
  /// Whatever is worth knowing of the run later: the data's version, the commit, a note. UTF-8 text by keys that are
  /// not empty. Workers see it, and so do callbacks, run.json, `Result` and the manifest of each checkpoint. It has no
  /// part in training, so processes of a job need not agree: what counts is rank 0's, or with `Launch::processes` and
  /// `Launch::mpirun` the program's that has started them. A later start in the same folder may have another one.
  std::map<std::string, std::string> metadata{};
  /// Environment variables, by their names, of the processes that `Launch::processes` and `Launch::mpirun` start, on
  /// all hosts and of each attempt. They have them as they start, before the libraries that look at them are loaded.
  /// Values are not to be seen in the list of a host's processes. The program itself and mpirun or srun keep what they
  /// have. Refused where raytrain starts no process, since the environment of one that runs cannot be changed safely.
  std::map<std::string, std::string> env{};
  std::uint64_t seed = 0;                      ///< What is random in a training follows from it.
  std::chrono::milliseconds stop_grace{5000};  ///< From a stop request until collectives throw `Stopped`; not negative.
  OnHang on_hang = OnHang::wait;
  /// Above 0. A worker that waits longer for others in a collective ends the run with an error that names them; they
  /// are named in a warning after 10 s.
  std::chrono::milliseconds collective_timeout = std::chrono::minutes{30};
  /// What SIGINT, SIGTERM and SIGHUP do while `fit()` runs, from before `Callback::on_start` until after `on_finish`:
  ///  - the first one asks for a stop;
  ///  - the second one, to the same process, ends the run at once: after 0.5 s workers that have not returned are left
  ///    behind, and after 2 s the process ends whatever keeps it (a callback, a backend, a disk). Both end it with exit
  ///    status 75;
  ///  - the third one does what it did before `fit()`.
  /// A signal within a second of a request counts as that request, since schedulers send several; but a SIGINT after a
  /// SIGINT is a new one. After the second request, and when `fit()` has returned, this goes for SIGTERM and SIGHUP
  /// only.
  ///
  /// False: signals do what they did before. Worker processes of a supervisor then ignore these three, so that nothing
  /// is known of one that will be taken away.
  /// In processes that `Launch::processes` and `Launch::mpirun` start SIGTERM is what `FailureConfig::max_preemptions`
  /// says, and the others do nothing.
  bool handle_signals = true;

  /// What workers have to return, from when their collectives throw `Stopped`: as long again, and at least 5 s, since
  /// they may have to come to one first. On ranks the processes of those that then have not returned are ended.
  [[nodiscard]] constexpr auto return_grace() const -> std::chrono::milliseconds {
    return std::max(stop_grace, std::chrono::milliseconds{5000});
  }

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/run_config-inl.hpp>
#endif
