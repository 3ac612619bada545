// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/round_board.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/stopped.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// How the ready-made training uses several workers of one process.
enum class BoostingMode : std::uint8_t {
  automatic,    ///< On threads one booster, on ranks distributed.
  distributed,  ///< Each worker boosts on its own rows, and they add up histograms through the library's network.
};

/// What a training function of a backend that boosts trees receives, whichever library boosts.
///
/// Threads: the worker's own only.
class BoostingContext : public TrainContext {
 public:
  /// Runs what all workers do together in the library, once all have come here. When it fails because another worker
  /// has ended, this worker is stopped, and has not failed. A group operation of the workers that boost.
  template <class Work>
  auto together(Work const& work) {
    // A library can wait for ever for a worker that ends while others are in it: XGBoost since 2.1 does at times.
    if (!one_booster_) barrier();
    try {
      return work();
    } catch (Error const&) {
      if (stop_requested()) throw Stopped{};
      throw;
    }
  }

  /// Threads that the library may use in this worker.
  [[nodiscard]] auto threads() const noexcept -> int {
    return one_booster_ ? cpus() * static_cast<int>(world_size().value) : cpus();
  }

  /// Whether the run is to stop, the same on all workers that boost. A group operation of these.
  [[nodiscard]] auto agree_on_stop() -> bool {
    if (one_booster_) return told_to_stop();
    barrier();
    return stop_requested();
  }

  /// For the ready-made training.
  [[nodiscard]] auto board() const noexcept -> detail::RoundBoard& { return *board_; }

 protected:
  BoostingContext(WorkerSetup setup, std::shared_ptr<detail::RoundBoard> board)
      : BoostingContext{dynamic_cast<LocalGroup*>(setup.group.get()) != nullptr, std::move(setup), std::move(board)} {}

  /// Whether the first worker boosts with the rows and the threads of all.
  [[nodiscard]] auto is_one_booster() const noexcept -> bool { return one_booster_; }

  /// Decides for one booster where that can be: on threads, with several workers. A group operation.
  auto decide_on_one_booster(BoostingMode mode) -> bool {
    one_booster_ = on_threads_ && world_size().value > 1 && mode != BoostingMode::distributed;
    if (one_booster_) take_cores_of_all();
    return one_booster_;
  }

  /// Compares the workers' features before the library does. `attempted`: the call that an error names; `names`: the
  /// names of all features, or none. A group operation.
  ///
  /// Errors: `rank_mismatch` when workers have other features.
  void check_features(std::string attempted, std::size_t count, std::vector<std::string> const& names) {
    auto const all = all_gather(names.empty() ? fmt::format("{} features", count)
                                              : fmt::format("{} features ({})", count, fmt::join(names, ", ")));
    auto const other = std::ranges::find_if(all, [&](auto const& theirs) { return theirs != all.front(); });
    if (other == all.end()) return;
    throw Error{Errc::rank_mismatch, std::move(attempted),
                fmt::format("rank {} has {}, and rank 0 has {}", other - all.begin(), *other, all.front()),
                "give all workers the same columns"};
  }

  /// Notes in a model for which objective it is trained, and from how many rounds it has started.
  static constexpr auto objective_name = "raytrain_objective";
  static constexpr auto initial_rounds_name = "raytrain_initial_rounds";

  /// `field`: the parameter that an error names.
  ///
  /// Errors: `invalid_config` for an objective that is not the checkpoint's.
  template <class Booster>
  static void check_objective(Booster const& stored, std::string field, std::string const& objective) {
    auto const before = stored.attribute(objective_name);
    if (before.empty() || before == objective) return;
    throw Error{Errc::invalid_config, std::move(field),
                fmt::format("is '{}', and the checkpoint's model was trained for '{}'", objective, before),
                "choose another RunConfig::name, or start anew by RunConfig::resume = Resume::fresh"};
  }

  template <class Booster>
  [[nodiscard]] static auto noted_initial_rounds(Booster const& booster) -> int {
    auto const rounds = booster.attribute(initial_rounds_name);
    return rounds.empty() ? 0 : std::stoi(rounds);
  }

 private:
  BoostingContext(bool on_threads, WorkerSetup setup, std::shared_ptr<detail::RoundBoard> board)
      : TrainContext{std::move(setup)}, on_threads_{on_threads}, board_{std::move(board)} {}

  /// The threads that the library starts run where this one may, which can be bound to cores of its own.
  void take_cores_of_all() {
    std::vector<int> cores;
    for (auto const& of_worker : all_gather(usable_cores())) {
      cores.insert(cores.end(), of_worker.begin(), of_worker.end());
    }
    if (world_rank() == Rank{0}) bind_to_cores(cores);
  }

  bool on_threads_;
  bool one_booster_ = false;
  std::shared_ptr<detail::RoundBoard> board_;
};

}  // namespace raytrain
