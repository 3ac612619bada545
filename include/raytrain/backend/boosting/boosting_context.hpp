// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/early_stopping.hpp>
#include <raytrain/backend/boosting/detail/group_borders.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// How the ready-made training uses several workers.
enum class BoostingMode : std::uint8_t {
  automatic,    ///< On threads one worker boosts with the rows and the cores of all, on ranks distributed.
  distributed,  ///< Each worker boosts on its own rows, and they add up histograms through the library's network.
};

/// What a training function of a backend that boosts trees receives, whichever library boosts.
///
/// Threads: the worker's own only.
class BoostingContext : public TrainContext {
 public:
  /// Runs what all workers do together in the library, once all have come here. When it fails because another worker
  /// has ended, this worker is stopped, and has not failed. A group operation.
  template <class Work>
  auto together(Work const& work) {
    // A library can wait for ever for a worker that ends while others are in it: XGBoost since 2.1 does at times.
    barrier();
    try {
      return work();
    } catch (Error const&) {
      if (stop_requested()) throw Stopped{};
      throw;
    }
  }

  /// Threads that the library may use in this worker.
  [[nodiscard]] auto threads() const noexcept -> int { return cpus(); }

  /// On which this worker's boosters train, as CUDA numbers those that CUDA_VISIBLE_DEVICES leaves to see; none without
  /// `ScalingConfig::use_gpu`. LightGBM with `device_type = gpu` takes it for a number of OpenCL's, which may be
  /// another GPU: nothing checks that the two agree.
  [[nodiscard]] auto gpu() const noexcept -> std::optional<int> { return gpu_; }

  /// Whether the run is to stop, the same on all workers. A group operation.
  [[nodiscard]] auto agree_on_stop() -> bool {
    barrier();
    return stop_requested();
  }

 protected:
  BoostingContext(WorkerSetup setup, std::optional<int> gpu) : TrainContext{std::move(setup)}, gpu_{gpu} {}

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

  /// Compares the workers' parameters before the library does. `attempted`: the call that an error names. A group
  /// operation.
  ///
  /// Errors: `rank_mismatch` when workers have other parameters, with these.
  void check_same_params(std::string attempted, std::map<std::string, std::string> const& params) {
    std::vector<std::string> texts;
    for (auto const& [name, value] : params) texts.push_back(fmt::format("{} = {}", name, value));
    std::ranges::sort(texts);
    auto const all = all_gather(texts);
    auto const other = std::ranges::find_if(all, [&](auto const& theirs) { return theirs != all.front(); });
    if (other == all.end()) return;
    auto const only_in = [](auto const& some, auto const& others) {
      std::vector<std::string> only;
      std::ranges::set_difference(some, others, std::back_inserter(only));
      return only.empty() ? std::string{"nothing in its place"} : fmt::format("{}", fmt::join(only, ", "));
    };
    throw Error{Errc::rank_mismatch, std::move(attempted),
                fmt::format("rank {} has {}, and rank 0 has {}", other - all.begin(), only_in(*other, all.front()),
                            only_in(all.front(), *other)),
                "give all workers the same parameters"};
  }

  /// Blocks as the run's preprocessor makes them where there is one. Each shows that this worker goes on, and a stop
  /// ends them by `Stopped`.
  [[nodiscard]] auto prepared(MakeBlocks make_blocks) -> MakeBlocks {
    if (!make_blocks) return {};  // which is refused
    return [this, make = std::move(make_blocks)] {
      return make().map("prepared", [this](Dataset const& block) {
        heartbeat();
        if (stop_requested()) throw Stopped{};
        return as_prepared(block);
      });
    };
  }

  /// This worker's rows of a dataset. Where a column of groups is named no group is on two workers: those that divide a
  /// dataset take whole ones. `attempted`: the call that an error names. With groups a group operation.
  ///
  /// Errors: as `dataset_shard`, `part_of_whole_groups` and `check_group_ends`.
  [[nodiscard]] auto rows_of(std::string_view dataset, std::string const& group, std::string const& attempted)
      -> Dataset {
    auto const shard = dataset_shard(dataset);
    if (group.empty() || world_size() == WorldSize{1}) return shard.part();
    if (shard.is_split()) {
      return detail::part_of_whole_groups({shard.dataset(), shard.name(), group}, world_rank(), world_size());
    }
    detail::check_group_ends(all_gather(detail::group_ends(shard.dataset(), group, attempted)), group, attempted);
    return shard.part();
  }

  /// Notes in a model for which objective it is trained, and from how many rounds it has started.
  static constexpr auto objective_name = "raytrain_objective";
  static constexpr auto initial_rounds_name = "raytrain_initial_rounds";

  /// What to do about a parameter that the model to go on from has otherwise. `source`: the setting by which that model
  /// comes into each run; empty: it is this run's own.
  [[nodiscard]] static auto remedy_by(std::string_view source) -> std::string {
    return source.empty() ? "choose another RunConfig::name, or start anew by RunConfig::resume = Resume::fresh"
                          : fmt::format("set it as the model has it, or name another one by {}", source);
  }

  /// As `remedy_by`, of the model to go on from. `initial_model`: the parameter's name where it is set.
  [[nodiscard]] auto model_source(std::string_view initial_model) const noexcept -> std::string_view {
    return checkpoint() ? checkpoint_source() : initial_model;
  }

  /// "RunConfig::resume_from_checkpoint" where the model to go on from is another run's; else empty.
  [[nodiscard]] auto checkpoint_source() const noexcept -> std::string_view {
    return begins_from_other_run() ? "RunConfig::resume_from_checkpoint" : "";
  }

  /// `field`: the parameter that an error names.
  ///
  /// Errors: `invalid_config` for an objective that is not the checkpoint's.
  template <class Booster>
  void check_objective(Booster const& stored, std::string field, std::string const& objective) const {
    auto const before = stored.attribute(objective_name);
    if (before.empty() || before == objective) return;
    throw Error{Errc::invalid_config, std::move(field),
                fmt::format("is '{}', and the checkpoint's model was trained for '{}'", objective, before),
                remedy_by(checkpoint_source())};
  }

  /// `params`: the struct whose number of classes an error names; `source`: as `remedy_by`.
  ///
  /// Errors: `invalid_config` for another number of classes than the model to go on from has.
  template <class Booster>
  static void check_classes(Booster const& stored, std::string_view params, int classes, std::string_view source) {
    if (stored.classes() == std::max(classes, 1)) return;
    throw Error{Errc::invalid_config, fmt::format("{}::num_class", params),
                fmt::format("is {}, and the model to go on from has {}", classes, stored.classes()), remedy_by(source)};
  }

  /// Of a model that comes from another run: this one's rounds are counted, and stopped early, from here on.
  template <class Booster>
  static void note_initial_rounds(Booster& booster) {
    booster.set_attribute(initial_rounds_name, std::to_string(booster.rounds()));
    for (auto const* const name :
         {detail::best_round_name, detail::best_score_name, detail::best_evaluation_name, detail::learnt_all_name}) {
      booster.set_attribute(name, "");
    }
  }

  template <class Booster>
  [[nodiscard]] static auto noted_initial_rounds(Booster const& booster) -> int {
    auto const rounds = booster.attribute(initial_rounds_name);
    return rounds.empty() ? 0 : std::stoi(rounds);
  }

 private:
  std::optional<int> gpu_;
};

}  // namespace raytrain
