// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/object_bytes.hpp>
#include <raytrain/message/report_fields.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/checkpoint_schedule.hpp>
#include <raytrain/train/checkpoint_stager.hpp>
#include <raytrain/train/detail/rank_average.hpp>
#include <raytrain/train/taken_data.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// What the training function sees of its worker and of the run. Backends derive their context from it.
///
/// Threads: the worker's own only; `report` and `progress` from another one are refused.
class TrainContext {
 public:
  explicit TrainContext(WorkerSetup setup);

  TrainContext(TrainContext const&) = delete;
  auto operator=(TrainContext const&) -> TrainContext& = delete;

  /// This worker's number in the run, from 0.
  [[nodiscard]] auto world_rank() const noexcept -> Rank { return placement().world_rank; }
  /// Workers of the run.
  [[nodiscard]] auto world_size() const noexcept -> WorldSize { return placement().world_size; }
  /// This worker's number among those of its host, from 0.
  [[nodiscard]] auto local_rank() const noexcept -> Rank { return placement().local_rank; }
  /// Workers of this host.
  [[nodiscard]] auto local_world_size() const noexcept -> WorldSize { return placement().local_world_size; }
  /// The host's number among those of the run, from 0.
  [[nodiscard]] auto node_rank() const noexcept -> Rank { return placement().node_rank; }
  /// Threads that this worker may use, its own included.
  [[nodiscard]] auto cpus() const noexcept -> int { return placement().cpus; }

  /// `RunConfig::seed`.
  [[nodiscard]] auto seed() const noexcept -> std::uint64_t { return run().seed; }
  /// `RunConfig::metadata`, the same on every rank.
  [[nodiscard]] auto metadata() const noexcept -> std::map<std::string, std::string> const& { return run().metadata; }
  /// `RunConfig::name`, or the program's where that is empty.
  [[nodiscard]] auto experiment_name() const noexcept -> std::string const& { return run().experiment_name; }
  /// Folder of this run. Files of the user's own are welcome in it, but for the names that raytrain uses.
  [[nodiscard]] auto run_path() const noexcept -> std::filesystem::path const& { return run().run_path; }

  /// `ScalingConfig::virtual_shards`.
  [[nodiscard]] auto virtual_shards() const noexcept -> std::uint32_t { return run().virtual_shards; }

  /// The checkpoint from which this run goes on, the same on every rank. At the beginning it is the one of
  /// `RunConfig::resume_from_checkpoint`, or none.
  [[nodiscard]] auto checkpoint() const noexcept -> std::optional<Checkpoint> const& { return run().checkpoint; }
  /// Whether `checkpoint()` is that of another run, with which this one begins.
  [[nodiscard]] auto begins_from_other_run() const noexcept -> bool { return run().begins_from_other_run; }
  /// The epoch to begin with: 0 without a checkpoint, or with another run's; otherwise the one after the metric "epoch"
  /// of its report, or as many as there were reports when that has none.
  [[nodiscard]] auto first_epoch() const -> int;

  /// Above 1 when the workers were started again in this `fit()`: after a failure, as `FailureConfig` says, or since
  /// their number was changed.
  [[nodiscard]] auto attempt() const noexcept -> Attempt { return setup_.link.attempt(); }

  /// Sends metrics to the controller, without waiting for it unless some thousand messages are on their way: a struct
  /// that names its fields, or `Metrics` whose names only the run knows.
  ///
  /// Errors: `invalid_report` for a field with the name of an automatic metric; `foreign_run` when the run in this
  /// directory reported other fields; `invalid_call` from another thread or after the end; `Stopped` once a stop is
  /// requested, after the report was sent.
  template <class R>
  void report(R const& metrics) {
    send(reported(metrics));
  }

  /// Sends metrics and this rank's part of a checkpoint, which is written if it is due by `CheckpointConfig::every`. A
  /// group operation: every rank calls it equally often.
  ///
  /// Returns when the state is copied, or after the commit with `CheckpointMode::sync`. Waits until this worker's
  /// previous part is written, and up to 1 s for the commit of the 8th checkpoint before it, with
  /// `CheckpointConfig::memory_copies` of the last one, so that commits keep up with reports.
  /// Errors: as without a checkpoint; `io` when this or the part before it could not be written; with `sync`
  ///         `rank_mismatch` when another rank calls something else meanwhile, and so with `every`, and with
  ///         `when_busy` other than `wait`. Parts of one checkpoint whose reports have other integers as "epoch" end
  ///         the attempt by `rank_mismatch`.
  template <class R>
  void report(R const& metrics, CheckpointDraft draft) {
    send(reported(metrics), std::move(draft));
  }

  /// Makes a checkpoint without a report and ends the training function, when the run is stopped or another number of
  /// workers is to go on. In a loop over batches, when a batch is done: `if (ctx.stop_requested()) ctx.hand_over(...)`,
  /// before any report in that loop, which would end the training function first. The next training function goes on
  /// with the very next batch, where `restore` has been given the shard. A group operation, as `report`: every rank
  /// calls it.
  ///
  /// Does nothing where the last batch of an epoch was taken: the report of the epoch comes next, and ends the training
  /// function.
  /// Errors: `Stopped`, when all is written; `invalid_call` while no stop is agreed upon; as `report` with a
  /// checkpoint.
  void hand_over(CheckpointDraft draft);

  /// Lets the shard go on where `checkpoint()` was taken, at the very next sample, with any number of workers. Returns
  /// the epoch to begin with: `first_epoch()` where the checkpoint says nothing of the dataset, of which rank 0 warns
  /// where the checkpoint is within an epoch of another one.
  ///
  /// Checkpoints keep its position from now on, and not that of another shard of its rows that begins before it.
  [[nodiscard]] auto restore(DatasetShard& shard) const -> int;

  /// Tells whoever watches how far this worker is between two reports: `done` of `total`, in units of the caller's.
  ///
  /// Errors: `invalid_call` from another thread, or when the training function has returned.
  /// Cost:   a clock reading; one call in 100 ms is sent, and the one that says that all is done. Callbacks
  ///         are told of rank 0's, and other ranks send none.
  void progress(std::uint64_t done, std::uint64_t total, std::string_view note = {});

  /// Shows that this worker goes on: within long work in which its own thread neither takes batches of a dataset, nor
  /// calls a collective, `report` or `progress`, which all show it as well.
  ///
  /// Threads: any.
  /// Cost:    some nanoseconds.
  void heartbeat() noexcept { setup_.link.signs_of_life().beat(); }

  /// Announces that this worker may show nothing for so long from now, and at most for a year: an evaluation by another
  /// library, a download. It is not taken for one that hangs before; 0 takes it back. From any thread.
  void expect(std::chrono::milliseconds silence) noexcept {
    setup_.link.signs_of_life().expect_silence(silence, SignsOfLife::Clock::now());
  }

  /// Says something to the person who runs the program, through the callbacks. From any thread.
  void warn(std::string text);

  /// Prints a line for the run, as `fmt::print` formats it: rank 0's, and nothing on other ranks. It comes out in the
  /// program that was started, whole, in order with rank 0's reports, and above the bar of a `ProgressBar`; on stdout
  /// where no callback shows it. From any thread.
  template <class... T>
  void print(fmt::format_string<T...> format, T&&... values) {
    if (world_rank() == Rank{0}) print_line(fmt::format(format, std::forward<T>(values)...));
  }

  /// This worker's part of the dataset, or all of it when `DataConfig` does not split it (it splits "train" alone
  /// unless it says more): as the run's preprocessor has made it, where there is one.
  ///
  /// Errors: `not_found`, listing the datasets that there are.
  [[nodiscard]] auto dataset_shard(std::string_view name) const -> DatasetShard;

  /// `TrainerConfig::preprocessor`, with what it has learnt: to change other rows as the datasets were, and
  /// predictions back.
  ///
  /// Errors: `invalid_call` where the run has none.
  [[nodiscard]] auto preprocessor() const -> AnyPreprocessor const&;

  /// Names of the datasets that there are, in alphabetical order.
  [[nodiscard]] auto dataset_names() const -> std::vector<std::string>;

  /// For arrays: all_reduce and the like, and `allocate` for arrays with which they are fastest.
  [[nodiscard]] auto collective() noexcept -> Collective& { return *setup_.collective; }

  /// Returns once every worker is here. Errors: as `Collective`.
  void barrier() { setup_.collective->barrier(); }

  /// Root's value, on every worker: numbers, strings, vectors, structs with a `serialize` function, and whatever else
  /// cereal can carry. For small things; `collective().broadcast` is for arrays.
  ///
  /// Errors: as `Collective`; `bad_message` when workers call it with different types.
  template <Transferable T>
  [[nodiscard]] auto broadcast(T value, Rank root = Rank{0}) -> T {
    return detail::broadcast_object(*setup_.collective, std::move(value), root);
  }

  /// Every worker's value, in rank order: anything that `broadcast` takes.
  ///
  /// Errors: as `broadcast`.
  template <Transferable T>
  [[nodiscard]] auto all_gather(T const& value) -> std::vector<T> {
    return detail::all_gather_objects(*setup_.collective, value);
  }

  /// Gives every rank root's values: parameters before the first step.
  ///
  /// It changes the array in place and is a group operation: all ranks get the same bits. So do the functions below,
  /// which of a number return the result.
  /// Errors: as `Collective`; `rank_mismatch` when another rank's array has another size or type.
  template <MutableElementArray R>
  void replicate(R&& values, Rank root = Rank{0}) {
    collective().broadcast(detail::span_of(values), root);
  }

  /// The mean over all ranks: gradients after every step, where all ranks have equally many samples. Integers round
  /// toward zero. In an array their sum may wrap around before; the mean of one number never does.
  ///
  /// Of one number that is float or double the sum is in rank order, whatever the hosts. Where all ranks have the same
  /// number it is the mean, bit by bit, with any number of ranks. A NaN on any rank is the result.
  template <MutableElementArray R>
  void average(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::average);
  }
  template <Element T>
  [[nodiscard]] auto average(T value) -> T {
    if constexpr (std::floating_point<T>) {
      return static_cast<T>(
          detail::average_over_ranks(collective(), {.value = static_cast<double>(value), .samples = 1}));
    } else if constexpr (std::integral<T>) {
      return detail::average_over_ranks(collective(), value);
    } else {
      return reduced(value, ReduceOp::average);
    }
  }

  /// The mean over the samples of all ranks, where `value` is the mean over this rank's: of a loss, an accuracy. A rank
  /// without samples does not count, whatever its value. NaN where no rank has any.
  ///
  /// Errors: `invalid_call`, on all ranks, for a negative number of samples.
  [[nodiscard]] auto average(double value, std::integral auto samples) -> double {
    return detail::average_over_ranks(collective(), {.value = value, .samples = static_cast<double>(samples)});
  }

  /// The same for each metric that is a double: `ctx.average({{"epoch", epoch}, {"loss", loss}}, samples)`, which
  /// `report` takes. Any other one has the same value on all ranks, and keeps it.
  ///
  /// Errors: `rank_mismatch`, on all ranks, for other metrics, and for such a value that differs; as above.
  [[nodiscard]] auto average(Metrics const& metrics, std::integral auto samples) -> Metrics {
    return detail::average_over_ranks(collective(), metrics, static_cast<double>(samples));
  }
  [[nodiscard]] auto average(Metrics const& metrics) -> Metrics { return average(metrics, 1); }

  /// Integers wrap around.
  template <MutableElementArray R>
  void sum(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::sum);
  }
  template <Element T>
  [[nodiscard]] auto sum(T value) -> T {
    return reduced(value, ReduceOp::sum);
  }

  /// A NaN on any rank is the result.
  template <MutableElementArray R>
  void min(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::min);
  }
  template <Element T>
  [[nodiscard]] auto min(T value) -> T {
    return reduced(value, ReduceOp::min);
  }

  /// A NaN on any rank is the result.
  template <MutableElementArray R>
  void max(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::max);
  }
  template <Element T>
  [[nodiscard]] auto max(T value) -> T {
    return reduced(value, ReduceOp::max);
  }

  /// Whether the training function should end soon, on its own terms: it may still use collectives, and report.
  ///
  /// All ranks that passed the same collective last get the same answer, so that they may branch on it. Without a
  /// collective in between it becomes true when `RunConfig::stop_grace` is over, or another worker has failed.
  [[nodiscard]] auto stop_requested() noexcept -> bool;

  /// For `run_training`, when the training function has returned: writes the state that is held in memory, and waits
  /// until all is written. No report comes after it. Errors: of a part that could not be written.
  void finish();
  /// The same after a failure: no write is tried again, and its error is dropped, since it is not the cause.
  void finish_after_failure() noexcept;

  /// For `run_training`: the training function learned of a stop, and may have ended because of it.
  [[nodiscard]] auto knew_of_stop() const noexcept -> bool { return knew_of_stop_; }

 protected:
  /// This worker's part of so many rows of data that is no dataset of the run's, of which checkpoints keep the position
  /// under the name. `rows_before`: as in `ShardOptions`.
  [[nodiscard]] auto split_shard(std::string_view name, std::size_t rows,
                                 std::optional<std::uint64_t> rows_before) const -> DatasetShard;

  /// For a `restore` without the position of a shard: `first_epoch()`. Rank 0 warns where the checkpoint is within an
  /// epoch, with what becomes of that.
  [[nodiscard]] auto epoch_without_position() const -> int;

  /// As `restore` of the shard does, and nothing else.
  void keep_position_of(DatasetShard const& shard) const;

  /// Whether checkpoints have the position of this shard of the dataset.
  [[nodiscard]] auto keeps_position(std::string const& dataset, TakenData::ShardProgressPointer const& progress) const
      -> bool {
    return taken_data_->follows(dataset, progress);
  }

  /// Before a context adds to what is handed over: false where `hand_over` does nothing.
  ///
  /// Errors: `invalid_call`, as `hand_over`.
  [[nodiscard]] auto may_hand_over() -> bool;

  /// For a context that adds files to a draft before it is reported: fills the draft as `report` would, which then has
  /// nothing left to fill. A group operation. Does nothing where the state is skipped.
  ///
  /// Errors: `io` when the part before could not be written; `invalid_call` from another thread or after the end.
  void fill(CheckpointDraft& draft);

  /// Metrics of these names, which a context adds where it is told to, do not tell one run from another.
  void leave_out_of_identity(std::vector<std::string> names) { not_of_identity_ = std::move(names); }

  /// What the run's preprocessor makes of rows, on this worker's cores; the rows themselves where there is none.
  [[nodiscard]] auto as_prepared(Dataset const& rows) const -> Dataset;

  /// `RunConfig::collective_timeout`.
  [[nodiscard]] auto collective_timeout() const noexcept -> std::chrono::milliseconds {
    return run().collective_timeout;
  }

  /// What `report` was given.
  struct Reported {
    Metrics metrics;
    bool has_checked_names = false;  ///< As of a struct, whose fields are checked once for all.
  };

  /// Errors: `invalid_call` from another thread or after the end; `invalid_report` for fields of a struct that have one
  ///         name, or an automatic metric's.
  template <class R>
  [[nodiscard]] auto reported(R const& metrics) const -> Reported {
    check_thread("report");
    if constexpr (std::same_as<R, Metrics>) {
      return {metrics, false};
    } else {
      static_assert(Reportable<R>,
                    "raytrain: report() takes a struct with `template <class A> void serialize(A& a)` that names its "
                    "fields: a(CEREAL_NVP(loss))");
      check_report_fields<R>();
      return {to_metrics(metrics), true};
    }
  }

  /// As `report`.
  void send(Reported reported);
  void send(Reported reported, CheckpointDraft draft);

  /// Workers of this process.
  [[nodiscard]] auto process_workers() const noexcept -> WorldSize { return placement().process_workers; }

  /// Whether this worker was told to stop, others perhaps not yet.
  [[nodiscard]] auto told_to_stop() const noexcept -> bool { return setup_.link.stop_token().stop_requested(); }

 private:
  void print_line(std::string text);

  [[nodiscard]] auto run() const noexcept -> RunShared const& { return *setup_.run; }
  [[nodiscard]] auto placement() const noexcept -> Placement const& { return setup_.link.placement(); }

  template <Element T>
  auto reduced(T value, ReduceOp op) -> T {
    collective().all_reduce(std::span<T>{&value, 1}, op);
    return value;
  }

  [[nodiscard]] static auto copies_for(RunShared const& run, Rank rank) -> CheckpointStager::Copies;

  /// `is_skipped`: the rest of the epoch is; else the epoch begins anew.
  [[nodiscard]] static auto warning_of_position(std::string const& dataset, ShardPosition const& position,
                                                bool is_skipped) -> Warning;

  /// This worker's part of the dataset, which goes on where the checkpoint says. `TakenData` knows its position.
  [[nodiscard]] auto make_shard(Dataset dataset, ShardOptions shard) const -> DatasetShard;

  // Rank 0 speaks for all.
  [[nodiscard]] auto batch_size_before(std::string_view dataset) const -> std::optional<std::uint64_t>;

  /// Errors: as `report`.
  [[nodiscard]] auto to_report(Reported reported) -> Report;

  // Limits how many checkpoints would be lost with the controller's process, and how many it handles before a failure
  // or a stop. The wait is limited, since a checkpoint that not all ranks report is never committed.
  void wait_for_earlier_commits();

  // Finds out where not all ranks report the checkpoint, for whose commit the others would wait for ever.
  void barrier_before_commit();

  // What becomes of the state of the report at hand, on all ranks alike.
  auto agree_on_fate() -> CheckpointSchedule::Fate;
  // Rank 0's wish.
  auto next_fate() -> CheckpointSchedule::Fate;
  // For an error of a collective operation within a report with a checkpoint.
  [[noreturn]] static void throw_unequal_reports(Error const& error);

  void submit(Report report);
  void submit_with_checkpoint(Report report, CheckpointDraft draft);

  void check_thread(char const* function) const;

  // The run that a directory holds is known by the fields of rank 0's first report.
  void check_identity(std::vector<std::string> const& fields);

  void throw_if_stopping();

  // A checkpoint that this rank was told to write.
  struct Written {
    CheckpointOrdinal checkpoint{};
    SignsOfLife::Clock::time_point reported;
    bool cost_is_known = false;
  };

  WorkerSetup setup_;
  CheckpointStager stager_;
  std::shared_ptr<TakenData> taken_data_ = std::make_shared<TakenData>();
  std::thread::id owner_ = std::this_thread::get_id();
  Clock::TimePoint started_;
  Clock::TimePoint last_report_;
  Clock::TimePoint next_progress_{};
  std::chrono::nanoseconds away_before_{0};  // time that was spent waiting until the last report
  double time_before_s_ = 0;
  std::uint64_t training_iteration_ = 0;
  CheckpointOrdinal next_checkpoint_;
  std::optional<CheckpointSchedule> schedule_;           // none: each one is written
  std::optional<CheckpointSchedule::Fate> agreed_fate_;  // of the report at hand
  SignsOfLife::Clock::time_point agreed_at_;
  std::optional<CheckpointOrdinal> held_checkpoint_;  // copied, and not to be written yet
  std::deque<Written> written_;                       // the last ones
  std::vector<std::string> not_of_identity_;          // metrics
  bool identity_checked_ = false;
  bool knew_of_stop_ = false;
  bool finished_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/train_context-inl.hpp>
#endif
