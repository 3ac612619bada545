// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/reduction.hpp>

namespace raytrain {

/// How many workers train. Unset: 1 on threads, and as many as the job has on ranks.
class WorkerCount {
 public:
  constexpr WorkerCount() = default;
  /// Any integer, so that a value out of range reaches `validate` and not a narrowing.
  template <std::integral I>
  constexpr WorkerCount(I count) : count_{static_cast<std::int64_t>(count)} {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr auto is_set() const noexcept -> bool { return count_.has_value(); }
  [[nodiscard]] constexpr auto value_or(std::int64_t fallback) const noexcept -> std::int64_t {
    return count_.value_or(fallback);
  }

 private:
  std::optional<std::int64_t> count_;
};

/// Where workers run.
enum class Launch : std::uint8_t {
  automatic,  ///< `ranks` in a job of several processes, else the backend's default.
  threads,    ///< Threads of this process.
  ranks,      ///< The ranks of the MPI job that this process is part of; needs <raytrain/launch/ranks.hpp>.
};

/// What one worker may use.
struct Resources {
  int cpus = 0;  ///< Threads the framework may use in a worker; 0: an equal share of this process's cores, at least 1.
};

/// How many workers, where, and with what.
struct ScalingConfig {
  static constexpr std::int64_t max_workers = 4096;  ///< Thread workers of one process.

  WorkerCount num_workers{};
  Launch launch = Launch::automatic;
  Resources resources_per_worker{};
  Reduction reduction = Reduction::automatic;  ///< Between hosts; on one host values are combined in rank order.
  bool pin_cpus = false;  ///< Binds worker r to cores r * cpus ... of this process's cores, wrapping around.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const {
    auto const workers = num_workers.value_or(1);
    if (workers < 1 || workers > max_workers) {
      throw Error{Errc::invalid_config, "ScalingConfig::num_workers",
                  "must be from 1 to " + std::to_string(max_workers) + " (got " + std::to_string(workers) + ")",
                  "write {.scaling = {.num_workers = 1}}"};
    }
    if (resources_per_worker.cpus < 0) {
      throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.cpus",
                  "must not be negative (got " + std::to_string(resources_per_worker.cpus) + ")",
                  "write 0 for an equal share of the cores"};
    }
  }

  [[nodiscard]] auto world_size() const noexcept -> WorldSize {
    return {static_cast<std::uint32_t>(num_workers.value_or(1))};
  }
};

}  // namespace raytrain
