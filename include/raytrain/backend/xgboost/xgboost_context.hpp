// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xgboost/version_config.h>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/backend/boosting/detail/model_file.hpp>
#include <raytrain/backend/xgboost/booster.hpp>
#include <raytrain/backend/xgboost/csr_rows.hpp>
#include <raytrain/backend/xgboost/detail/block_batches.hpp>
#include <raytrain/backend/xgboost/detail/matrix_bins.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_gpu.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/backend/xgboost/xgboost_params.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// How the ready-made training uses several workers.
using XGBoostMode = BoostingMode;

namespace detail {

/// What the workers of one process share during one `fit()`.
///
/// Threads: `add_stranger` and `take_strangers` from any.
struct XGBoostShared {
  void add_stranger(std::string text) {
    std::lock_guard const lock{mutex};
    strangers.push_back(std::move(text));
  }
  [[nodiscard]] auto take_strangers() -> std::vector<std::string> {
    std::lock_guard const lock{mutex};
    return std::exchange(strangers, {});
  }

  std::mutex mutex;
  std::vector<std::string> strangers;     ///< What the tracker has told of them.
  std::optional<XGBoostTracker> tracker;  ///< Made by rank 0's worker; ends with the run. Last: it tells until it ends.
};

}  // namespace detail

/// Name of the model's file in a checkpoint.
inline constexpr std::string_view booster_file_name = "booster.ubj";

namespace detail {

/// Metadata of a checkpoint: the digest of the bins of blocks between which its trees split.
inline constexpr auto block_bins_name = "raytrain_block_bins";

}  // namespace detail

/// The model as a checkpoint of which rank 0's is written.
[[nodiscard]] inline auto save(Booster const& booster) -> CheckpointDraft {
  auto draft = CheckpointDraft::replicated(
      [&](CheckpointDraft& files) { files.add(std::string{booster_file_name}, booster.to_bytes()); });
  if (auto digest = booster.bins_digest(); !digest.empty()) {
    draft.set_metadata(detail::block_bins_name, std::move(digest));
  }
  return draft;
}

/// Errors: as `Checkpoint::read`; `backend` when XGBoost cannot read it, `invalid_data` when a newer one has stored it.
inline void load(Checkpoint const& checkpoint, Booster& booster) { booster.load(checkpoint.read(booster_file_name)); }

/// What a training function of `XGBoostBackend` receives.
///
/// Threads: the worker's own only.
class XGBoostContext : public BoostingContext {
 public:
  /// `gpu`: as `gpu()`.
  XGBoostContext(WorkerSetup setup, std::optional<int> gpu, std::shared_ptr<detail::XGBoostShared> shared)
      : BoostingContext{std::move(setup), gpu}, shared_{std::move(shared)} {}

  /// Makes XGBoost's workers known to each other, so that what they do with a `DMatrix` and a `Booster` is done by all
  /// of them together. The first of `dmatrix` and `booster` does it, too. A group operation.
  ///
  /// Errors: as `XGBoostTracker` and `XGBoostCommunicator`; on rank 0 as `XGBoostTracker::error`, which says why they
  ///         did not find each other.
  void connect() {
    if (communicator_ || world_size() == WorldSize{1}) return;
    XGBoostWorkerArguments arguments;
    if (world_rank() == Rank{0}) {
      auto& tracker = shared_->tracker.emplace(
          XGBoostTracker::Options{.world = world_size(),
                                  .address = control_address(local_world_size() == world_size())},
          XGBoostTracker::Events{
              .on_stranger = [shared = shared_.get()](std::string text) { shared->add_stranger(std::move(text)); }});
      arguments = tracker.worker_arguments();
    }
    arguments = broadcast(std::move(arguments));
    together([&] { meet(arguments); });
  }

  /// This worker's rows of a dataset: a part of "train" and of what else `DataConfig` splits, or all. With a group
  /// column a part has whole groups, so that it may be another one than `DatasetShard::part`. A group operation.
  ///
  /// Errors: `not_found`, listing the datasets that there are; as `DMatrix`; `rank_mismatch` when workers have other
  ///         features or options; `invalid_config` for fewer groups than workers; `invalid_data` where workers that
  ///         have rows of their own share a group.
  [[nodiscard]] auto dmatrix(std::string_view dataset, DMatrixOptions options = {}) -> DMatrix {
    auto const attempted = fmt::format("XGBoostContext::dmatrix(\"{}\")", dataset);
    auto const rows = rows_of(dataset, options.group, attempted);
    connect();
    if (options.threads == 0) options.threads = threads();
    auto const names = DMatrix::feature_names(rows, options);
    if (communicator_) {
      check_features(attempted, names.size(), names);
      check_form(attempted, {"a dataset", options.max_bin, options.categorical});
    }
    auto const make = [&](detail::RowStorage storage) { return DMatrix{rows, options, storage}; };
    return options.max_bin != 0 ? with_even_gaps(make)
                                : together([&] { return make(detail::RowStorage::as_they_are); });
  }

  /// Rows of this worker's own that come block by block, of which one is in memory at a time, as the run's preprocessor
  /// makes them where there is one:
  ///
  ///     auto const rows = [&] { return csv_blocks("clicks/*.csv").shard(ctx.world_rank(), ctx.world_size()); };
  ///     auto const train = ctx.dmatrix(rows, {.label = "clicked"});
  ///
  /// A block shows that this worker goes on, and a stop ends it. To go on from a checkpoint, give the same rows to as
  /// many workers as before: its trees split between the bins of the rows. Where values are missing on some workers
  /// only, XGBoost 1.7 goes through the rows eight times, else four. A group operation.
  ///
  /// Errors: as `DMatrix` of blocks; `rank_mismatch` when workers have other features or options; `Stopped`.
  [[nodiscard]] auto dmatrix(MakeBlocks make_blocks, DMatrixOptions options = {}, DMatrix const* reference = nullptr)
      -> DMatrix {
    constexpr auto attempted = "XGBoostContext::dmatrix(MakeBlocks)";
    auto const batches = DMatrix::batches_of(prepared(std::move(make_blocks)), options, reference);
    connect();
    if (options.threads == 0) options.threads = threads();
    if (communicator_) {
      check_features(attempted, batches->names().size(), batches->names());
      auto form = DMatrixForm{"blocks", DMatrix::bins_of_blocks(options, reference), options.categorical};
      form.has_reference = reference != nullptr;
      check_form(attempted, form);
    }
    auto const make = [&](detail::RowStorage storage) { return DMatrix{*batches, options, reference, storage}; };
    auto matrix = with_even_gaps(make);
    if (communicator_ && reference == nullptr) share_bins(matrix);
    return matrix;
  }

  /// Rows of this worker's own. A group operation.
  ///
  /// Errors: as `DMatrix`; `rank_mismatch` when workers have other features.
  [[nodiscard]] auto dmatrix(CsrRows const& rows) -> DMatrix {
    connect();
    constexpr auto attempted = "XGBoostContext::dmatrix(CsrRows)";
    if (communicator_) {
      check_features(attempted, rows.columns, rows.feature_names);
      check_form(attempted, {"CsrRows"});
    }
    return together([&] { return DMatrix{rows, threads()}; });
  }

  /// A model for these matrices: the one of the checkpoint that the run goes on from, or `initial_model`, or an empty
  /// one.
  ///
  /// Errors: as `DMatrix`, `load`; `rank_mismatch` when workers have other parameters, or another number of matrices;
  ///         with `ScalingConfig::use_gpu` as `detail::XGBoostBuild`;
  ///         `invalid_config` for a parameter that XGBoost does not know or take, for a linear model of several
  ///         workers, for an objective that is not the checkpoint's, and for another number of classes or another kind
  ///         of booster than the model to go on from has; `invalid_data` for other features than it has.
  [[nodiscard]] auto booster(XGBoostParams const& params, std::vector<DMatrix const*> const& matrices) -> Booster {
    connect();
    if (communicator_) {
      check_same_params(params);
      check_same_matrices(matrices.size());
    }
    auto booster = together([&] { return new_booster(params, matrices); });
    booster.note_uneven_gaps(uneven_gaps(matrices));
    return booster;
  }

  /// Warns of what XGBoost has warned of since the last call, of each text once, on rank 0, and of strangers that have
  /// come to its tracker. The ready-made training calls it in each round.
  void check_log() {
    if (world_rank() == Rank{0}) tell_of_strangers();
    for (auto const& text : detail::XGBoostLog::take()) warn_once(text);
  }

  /// Rounds that `XGBoostParams::initial_model`, or another run's checkpoint, brought into the model.
  [[nodiscard]] static auto initial_rounds(Booster const& booster) -> int { return noted_initial_rounds(booster); }

 private:
  /// What of a matrix must be the same on all workers, for XGBoost to exchange as much on each.
  struct DMatrixForm {
    std::string rows;
    int max_bin = 0;
    std::vector<std::string> categorical{};
    bool has_reference = false;
  };

  /// A group operation. Errors: `rank_mismatch` when workers make other matrices.
  void check_form(std::string_view attempted, DMatrixForm const& form) {
    auto const bins = form.max_bin == 0 ? std::string{"values"} : fmt::format("{} bins", form.max_bin);
    auto const all =
        all_gather(fmt::format("a matrix of {} with {}, {} reference and the categorical columns ({})", form.rows, bins,
                               form.has_reference ? "a" : "no", fmt::join(form.categorical, ", ")));
    auto const other = std::ranges::find_if(all, [&](auto const& theirs) { return theirs != all.front(); });
    if (other == all.end()) return;
    throw Error{Errc::rank_mismatch, std::string{attempted},
                fmt::format("rank {} makes {}, and rank 0 makes {}", other - all.begin(), *other, all.front()),
                "make the same matrices on all workers, in the same order"};
  }

  /// Of all but those that a worker may have for itself. A group operation.
  ///
  /// Errors: `rank_mismatch` when workers have other parameters, naming them.
  void check_same_params(XGBoostParams const& params) {
    auto named = params.named();
    named.insert(params.params.begin(), params.params.end());
    named["eval_metric"] = fmt::format("{}", fmt::join(params.eval_metric, ", "));
    for (auto const* const own : {"verbosity", "device", "gpu_id"}) named.erase(own);
    BoostingContext::check_same_params("XGBoostContext::booster", named);
  }

  /// A group operation. Errors: `rank_mismatch` when workers have another number of matrices.
  void check_same_matrices(std::size_t count) {
    auto const all = all_gather(std::uint64_t{count});
    auto const other = std::ranges::find_if(all, [&](auto theirs) { return theirs != all.front(); });
    if (other == all.end()) return;
    throw Error{Errc::rank_mismatch, "XGBoostContext::booster",
                fmt::format("rank {} has {} matrices, and rank 0 has {}", other - all.begin(), *other, all.front()),
                "give all workers the same matrices, in the same order"};
  }

  /// Tells all workers what the bins of a matrix follow from, which are those of all of them. A group operation.
  void share_bins(DMatrix& matrix) {
    auto const bins = matrix.bins();
    auto largest = bins->largest_categories;
    for (auto const& theirs : all_gather(largest)) {
      for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], theirs[i]);
    }
    auto const digests = fmt::format("{}", fmt::join(all_gather(bins->digest), "; "));
    matrix.note_bins_of_all(std::move(largest), detail::xxh3_of(bytes_of(digests)));
  }

  /// Of each matrix, whether rows lack values on some workers, and on others none does; nothing where XGBoost does not
  /// mind. A group operation.
  ///
  /// Source: XGBoost 1.7's updater_quantile_hist.cc, where a worker whose rows are all dense adds up no gradients with
  /// the others; from 2.0 on it does.
  [[nodiscard]] auto uneven_gaps(std::vector<DMatrix const*> const& matrices) -> std::vector<bool> {
    if (!communicator_ || XGBOOST_VER_MAJOR >= 2) return {};
    std::vector<std::uint8_t> has_gaps;
    for (auto const* const matrix : matrices) has_gaps.push_back(static_cast<std::uint8_t>(matrix->has_gaps()));
    auto const all = all_gather(has_gaps);
    std::vector<bool> are_uneven(has_gaps.size());
    for (auto const& theirs : all) {
      for (std::size_t i = 0; i < are_uneven.size(); ++i) are_uneven[i] = are_uneven[i] || theirs[i] != all.front()[i];
    }
    return are_uneven;
  }

  /// A matrix of bins. Where gaps are uneven, it is made once more, so that XGBoost keeps the rows of all workers
  /// alike.
  template <class Make>
  [[nodiscard]] auto with_even_gaps(Make const& make) -> DMatrix {
    auto matrix = std::optional{together([&] { return make(detail::RowStorage::as_they_are); })};
    auto const are_uneven = uneven_gaps({&*matrix});
    if (are_uneven.empty() || !are_uneven.front()) return std::move(*matrix);
    auto const storage = matrix->has_gaps() ? detail::RowStorage::as_they_are : detail::RowStorage::with_gaps;
    matrix.reset();
    return together([&] { return make(storage); });
  }

  /// A seed as XGBoost takes it: its generator has no more bits.
  static auto number(std::uint64_t seed) -> std::uint64_t { return seed & std::numeric_limits<std::uint32_t>::max(); }

  void meet(XGBoostWorkerArguments const& arguments) {
    std::optional<Error> why;
    try {
      communicator_.emplace(arguments, world_rank());
    } catch (Error const& error) {
      why = error;
    }
    if (world_rank() == Rank{0}) {
      tell_of_strangers();
      if (why) why = shared_->tracker->error().value_or(*why);
    }
    if (why) throw Error{*why};
  }

  void tell_of_strangers() {
    for (auto const& text : shared_->take_strangers()) warn("XGBoost's tracker: " + text);
  }

  void warn_once(std::string const& text) {
    if (world_rank() == Rank{0} && told_.insert(text).second) warn("XGBoost: " + text);
  }

  auto new_booster(XGBoostParams const& params, std::vector<DMatrix const*> const& matrices) -> Booster {
    auto const kind = params.params.find("booster");
    if (communicator_ && kind != params.params.end() && kind->second == "gblinear") {
      throw Error{Errc::invalid_config, "XGBoostParams::params",
                  "'booster' is 'gblinear', of which XGBoost would give each worker a model of its own",
                  "train it with one worker, or on threads with XGBoostMode::automatic"};
    }
    Booster booster{matrices};
    if (checkpoint()) {
      load(*checkpoint(), booster);
      check_objective(booster, "XGBoostParams::objective", params.objective);
      if (begins_from_other_run()) note_initial_rounds(booster);
    } else if (!params.initial_model.empty()) {
      booster.load(detail::read_model_file(params.initial_model, "XGBoost"));
      note_initial_rounds(booster);
    }
    int begun = 0;
    if (checkpoint() || !params.initial_model.empty()) {
      check_start(booster, params, matrices);
      begun = booster.rounds();
      check_splits(booster);
    }
    for (auto const& [name, value] : params.named()) booster.set_parameter(name, value);
    for (auto const& metric : params.eval_metric) booster.set_parameter("eval_metric", metric);
    for (auto const& [name, value] : params.params) booster.set_parameter(name, value);
    if (gpu()) {
      for (auto const& [name, value] : detail::XGBoostBuild::here().gpu_parameters(params, *gpu()))
        booster.set_parameter(name, value);
    }
    booster.set_parameter("nthread", std::to_string(threads()));
    // XGBoost draws rows and columns from the beginning of its random numbers, also where a training goes on.
    booster.set_parameter("seed", std::to_string(number(seed() + static_cast<std::uint64_t>(begun))));
    booster.set_parameter("validate_parameters", "1");
    check_parameters(booster, params);
    booster.set_attribute(objective_name, params.objective);
    if (!matrices.empty()) booster.describe_features(*matrices.front());
    return booster;
  }

  /// XGBoost takes a model of other features, classes or another kind, and makes something else of it.
  void check_start(Booster const& stored, XGBoostParams const& params, std::vector<DMatrix const*> const& matrices) {
    auto const source = model_source(params.initial_model.empty() ? "" : "XGBoostParams::initial_model");
    check_classes(stored, "XGBoostParams", params.num_class, source);
    auto const kind = params.params.find("booster");
    if (kind != params.params.end() && kind->second != stored.kind()) {
      throw Error{
          Errc::invalid_config, "XGBoostParams::params",
          fmt::format("'booster' is '{}', and that of the model to go on from is '{}'", kind->second, stored.kind()),
          remedy_by(source)};
    }
    if (!matrices.empty()) stored.check_features(*matrices.front(), "going on from a model of XGBoost");
  }

  /// XGBoost takes the values of blocks for those at the borders of their bins, by which trees that split elsewhere
  /// take some rows the other way. Bins of rows in memory have no digest: who goes on with them looks at them himself.
  void check_splits(Booster& booster) {
    auto const digest = booster.bins_digest();
    if (digest.empty()) return;
    if (checkpoint()) {
      auto const& metadata = checkpoint()->metadata();
      auto const before = metadata.find(detail::block_bins_name);
      if (before != metadata.end() && before->second == digest) return;
    }
    booster.note_other_trees();
    if (world_rank() != Rank{0}) return;
    warn(
        "XGBoost: the trees of the model to go on from split between other bins than these blocks have, so that its "
        "predictions for them are approximate, and what it learns from here on is worse: give the same blocks to as "
        "many workers as before, or a dataset without bins");
  }

  /// What XGBoost has no use for must not be there, but for the fields that have their defaults: a linear model, say,
  /// takes no depth.
  void check_parameters(Booster const& booster, XGBoostParams const& params) {
    check_log();
    auto const configuration = booster.configuration();
    auto const defaults = XGBoostParams{}.named();
    auto const fields = params.named();
    for (auto const& line : detail::XGBoostLog::take()) {
      auto unused = detail::unused_parameters(line);
      if (unused.empty()) warn_once(line);
      std::erase_if(unused, [&](auto const& name) {
        return fields.contains(name) && defaults.contains(name) && fields.at(name) == defaults.at(name);
      });
      if (unused.empty()) continue;
      throw Error{Errc::invalid_config, "XGBoostParams::params",
                  fmt::format("XGBoost has no use for \"{}\"", fmt::join(unused, "\", \"")),
                  "look for a spelling mistake, and for what the objective and the tree method take"};
    }
    if (gpu()) detail::XGBoostBuild::here().check_trains_on(*gpu(), configuration);
  }

  detail::XGBoostLog log_;
  std::set<std::string> told_;  ///< What it has warned of.
  std::shared_ptr<detail::XGBoostShared> shared_;
  std::optional<XGBoostCommunicator> communicator_;
};

}  // namespace raytrain
