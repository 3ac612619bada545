// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/backend/boosting/detail/model_file.hpp>
#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_gpu.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/backend/lightgbm/lightgbm_network.hpp>
#include <raytrain/backend/lightgbm/lightgbm_params.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// How the ready-made training uses several workers.
using LightGBMMode = BoostingMode;

/// What a training function of `LightGBMBackend` receives.
///
/// Threads: the worker's own only.
class LightGBMContext : public BoostingContext {
 public:
  /// `gpu`: as `gpu()`.
  LightGBMContext(WorkerSetup setup, std::optional<int> gpu) : BoostingContext{std::move(setup), gpu} {}

  /// Makes LightGBM's workers known to each other, so that what they do with a `LightGBMDataset` and a
  /// `LightGBMBooster` is done by all of them together. The first of `dataset` and `booster` does it, too.
  void connect() {
    if (network_ || world_size() == WorldSize{1}) return;
    network_ = std::make_unique<LightGBMNetwork>(collective());
  }

  /// This worker's rows of a dataset: a part of "train" and of what else `DataConfig` splits, or all; with the margins
  /// of the model that the training goes on from. With a group column a part has whole groups, so that it may be
  /// another one than `DatasetShard::part`. A group operation.
  ///
  /// `reference`: the dataset that the model trains on, for one that it is evaluated on.
  /// Errors: `not_found`, listing the datasets that there are; as `LightGBMDataset`; `rank_mismatch` when workers have
  ///         other features or parameters; `invalid_config` for fewer groups than workers; `invalid_data` where workers
  ///         that have rows of their own share a group; as `booster` for parameters and the model that the training
  ///         goes on from.
  [[nodiscard]] auto dataset(std::string_view name, LightGBMParams const& params,
                             LightGBMDataset const* reference = nullptr) -> LightGBMDataset {
    auto const attempted = fmt::format("LightGBMContext::dataset(\"{}\")", name);
    check_gpu(params);
    auto const rows = rows_of(name, params.group, attempted);
    connect();
    auto const options = dataset_options(params);
    if (network_) {
      check_same_params(attempted, params);
      auto const names = detail::feature_table(rows, options).names();
      check_features(attempted, names.size(), names);
    }
    LightGBMDataset made{rows, options, reference};
    check_log();
    if (auto const* const start = start_model(params)) {
      made.set_initial_scores(start->margins(rows, options, threads()));
    }
    return made;
  }

  /// Rows of this worker's own that come block by block, of which one is in memory at a time, as the run's preprocessor
  /// makes them where there is one:
  ///
  ///     auto const rows = [&] { return csv_blocks("clicks/*.csv").shard(ctx.world_rank(), ctx.world_size()); };
  ///     auto const train = ctx.dataset(rows, {.label = "clicked", .objective = "binary"});
  ///
  /// A block shows that this worker goes on, and a stop ends it. To go on from a checkpoint, give the same rows to as
  /// many workers as before: its trees split between the bins of the rows, which are then gone through once more, for
  /// their margins. A group operation.
  ///
  /// Errors: as `LightGBMDataset` of blocks; `rank_mismatch` when workers have other features or parameters; as
  ///         `booster` for parameters and the model that the training goes on from; `Stopped`.
  [[nodiscard]] auto dataset(MakeBlocks make_blocks, LightGBMParams const& params,
                             LightGBMDataset const* reference = nullptr) -> LightGBMDataset {
    check_gpu(params);
    connect();
    auto const options = dataset_options(params);
    auto const* const attempted = "LightGBMContext::dataset(MakeBlocks)";
    if (network_) check_same_params(attempted, params);
    detail::LightGBMBlocks blocks{prepared(std::move(make_blocks)), LightGBMDataset::roles_of_blocks(options),
                                  LightGBMDataset::owner};
    if (network_) check_features(attempted, blocks.names().size(), blocks.names());
    LightGBMDataset made{blocks, options, reference};
    check_log();
    if (auto const* const start = start_model(params)) made.set_initial_scores(start->margins(blocks, threads()));
    return made;
  }

  /// A model that trains on `train`, and is evaluated on it and on `others`, which all outlive it: the one of the
  /// checkpoint that the run goes on from, or `initial_model`, or an empty one.
  ///
  /// Errors: as `LightGBMBooster`; `rank_mismatch` when workers have other parameters; `invalid_config` for a parameter
  ///         that LightGBM does not know or take, for an objective or a number of classes that is not the
  ///         checkpoint's, and for a random forest to go on with.
  [[nodiscard]] auto booster(LightGBMParams const& params, LightGBMDataset const& train,
                             LightGBMBooster::Datasets const& others = {}) -> LightGBMBooster {
    check_gpu(params);
    connect();
    if (network_) check_same_params("LightGBMContext::booster", params);
    LightGBMBooster booster{train, parameters(params), others};
    check_log();
    if (auto const* const start = start_model(params)) {
      booster.begin_with(*start);
      for (auto const& [name, value] : start->attributes()) booster.set_attribute(name, value);
    }
    booster.set_attribute(objective_name, params.objective);
    return booster;
  }

  /// Each metric on each dataset, over all workers: where a dataset is split the mean by their rows' weights, which is
  /// exact for means over rows and for "rmse", and close for "auc" and for what goes by queries; of "gamma_deviance"
  /// the sum, as LightGBM has it. "r2" is the mean of each worker's own, beside the mean label of its rows, and not
  /// that of all rows. A group operation.
  [[nodiscard]] auto evaluate(LightGBMBooster const& booster) -> std::vector<Evaluation> {
    auto evaluations = booster.evaluate();
    if (!network_ || evaluations.empty()) return evaluations;
    auto const count = evaluations.size();
    auto mine = booster.evaluation_weights();
    for (auto const& evaluation : evaluations) mine.push_back(evaluation.value);
    std::vector<double> all(mine.size() * world_size().value);
    collective().all_gather(std::span<double const>{mine}, std::span{all});
    for (std::size_t i = 0; i < count; ++i) {
      auto const is_root = evaluations[i].name.ends_with("-rmse");
      auto const is_sum = evaluations[i].name.ends_with("-gamma_deviance");
      double weights = 0;
      double sum = 0;
      bool same = true;
      for (std::size_t at = i; at < all.size(); at += 2 * count) {
        if (all[at] == 0) {  // of a worker whose rows do not count, of which LightGBM makes no number
          same = false;
          continue;
        }
        auto const value = all[at + count];
        same = same && value == all[i + count];
        weights += all[at];
        sum += is_sum ? value : all[at] * (is_root ? value * value : value);
      }
      if (same) continue;
      auto const of_all = is_sum ? sum : sum / weights;
      evaluations[i].value = is_root ? std::sqrt(of_all) : of_all;
    }
    return evaluations;
  }

  /// Rounds that `LightGBMParams::initial_model` brought into the model.
  [[nodiscard]] static auto initial_rounds(LightGBMBooster const& booster) -> int {
    return noted_initial_rounds(booster);
  }

  /// Throws what LightGBM has said of parameters, and warns of all else that it has warned of.
  ///
  /// Errors: `invalid_config` for a parameter that LightGBM does not know.
  void check_log() {
    for (auto const& line : detail::LightGBMLog::take()) {
      if (detail::is_unused_parameter(line)) {
        throw Error{Errc::invalid_config, "LightGBMParams::params", "LightGBM says: " + line,
                    "look for a spelling mistake, and for a second name of what is given already"};
      }
      if (world_rank() == Rank{0}) warn("LightGBM: " + line);
    }
  }

 private:
  /// A seed as LightGBM takes it.
  static auto number(std::uint64_t seed) -> std::uint64_t {
    return seed & static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  }

  /// A group operation.
  ///
  /// Errors: as `BoostingContext::check_same_params`; `invalid_config` for trees of which each worker grows its own.
  void check_same_params(std::string attempted, LightGBMParams const& params) {
    auto named = params.all();
    named["categorical"] = fmt::format("{}", fmt::join(params.categorical, ", "));
    for (auto const* const own : {"verbosity", "gpu_platform_id", "gpu_device_id"}) named.erase(own);
    BoostingContext::check_same_params(std::move(attempted), named);
    for (auto const* const name : {"tree_learner", "tree", "tree_type", "tree_learner_type"}) {
      auto const found = params.params.find(name);
      if (found == params.params.end() || found->second != "serial") continue;
      throw Error{Errc::invalid_config, "LightGBMParams::params",
                  fmt::format("'{}' is 'serial', by which each of {} workers would learn from its own rows alone", name,
                              world_size().value),
                  "leave it out"};
    }
  }

  [[nodiscard]] auto dataset_options(LightGBMParams const& params) const -> LightGBMDatasetOptions {
    return {.label = params.label,
            .weight = params.weight,
            .group = params.group,
            .categorical = params.categorical,
            .params = parameters(params)};
  }

  /// Once, before anything else. Errors: with a GPU as `lightgbm_gpu_parameters` and `check_lightgbm_gpu`.
  void check_gpu(LightGBMParams const& params) {
    if (!gpu() || gpu_is_checked_) return;
    detail::check_lightgbm_gpu(detail::lightgbm_gpu_parameters(params, *gpu(), world_size()));
    gpu_is_checked_ = true;
  }

  /// All that LightGBM is told. On the CPU equal runs give equal bits, since it does not choose by the clock how to add
  /// up.
  [[nodiscard]] auto parameters(LightGBMParams const& params) const -> std::map<std::string, std::string> {
    auto all = params.all();
    all.try_emplace("verbosity", "0");
    if (gpu()) {
      all.erase("device");
      for (auto const& [name, value] : detail::lightgbm_gpu_parameters(params, *gpu(), world_size())) all[name] = value;
    } else {
      all.try_emplace("deterministic", "true");
      if (!all.contains("force_row_wise")) all.try_emplace("force_col_wise", "true");
    }
    all["num_threads"] = std::to_string(threads());
    all["seed"] = std::to_string(number(seed()));
    // LightGBM draws rows and features from the beginning of its random numbers, also where a training goes on.
    if (start_ && (params.bagging_freq > 0 || params.feature_fraction < 1)) {
      for (auto const* const name : {"bagging_seed", "feature_fraction_seed"}) {
        all.try_emplace(name, std::to_string(number(seed() + static_cast<std::uint64_t>(start_->rounds()))));
      }
    }
    if (network_) {
      all["num_machines"] = std::to_string(world_size().value);
      all.try_emplace("tree_learner", "data");
    }
    return all;
  }

  /// The model that the training goes on from; none for one that begins anew.
  [[nodiscard]] auto start_model(LightGBMParams const& params) -> LightGBMBooster const* {
    if (!start_) {
      if (checkpoint()) {
        start_.emplace(*checkpoint());
        check_objective(*start_, "LightGBMParams::objective", params.objective);
        if (begins_from_other_run()) note_initial_rounds(*start_);
      } else if (!params.initial_model.empty()) {
        start_.emplace(detail::read_model_file(params.initial_model, "LightGBM"));
        start_->set_attribute(initial_rounds_name, std::to_string(start_->rounds()));
      } else {
        return nullptr;
      }
      auto const source = model_source(params.initial_model.empty() ? "" : "LightGBMParams::initial_model");
      if (params.boosting == "rf" || params.boosting == "random_forest") {
        throw Error{Errc::invalid_config, "LightGBMParams::boosting",
                    "is '" + params.boosting + "', and LightGBM does not add trees to a forest that is there",
                    fmt::format("start anew {}{}, with all of num_iterations at once",
                                source.empty() ? "by RunConfig::resume = Resume::fresh" : "without ", source)};
      }
      check_classes(*start_, "LightGBMParams", params.num_class, source);
    }
    return &*start_;
  }

  bool gpu_is_checked_ = false;
  std::unique_ptr<LightGBMNetwork> network_;
  std::optional<LightGBMBooster> start_;
};

}  // namespace raytrain
