// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <exception>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/checkpoint_interval.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>
#include <raytrain/train/checkpoint_schedule.hpp>
#include <raytrain/train/checkpoint_stager.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

RAYTRAIN_INLINE TrainContext::TrainContext(WorkerSetup setup)
    : setup_{std::move(setup)},
      stager_{{.store = run().store,
               .store_thread = run().store_thread,
               .link = setup_.link,
               .on_failed_write = run().checkpoint_config.on_failed_write,
               .write_retries = run().checkpoint_config.write_retries,
               .failed = run().failed.get_token(),
               .copies = copies_for(run(), setup_.link.placement().world_rank)}},
      started_{run().clock.now()},
      last_report_{started_},
      next_checkpoint_{run().first_checkpoint} {
  if (auto const& checkpoint = run().checkpoint; checkpoint && !run().begins_from_other_run) {
    training_iteration_ = checkpoint->training_iteration(world_rank());
    time_before_s_ = checkpoint->time_total_s();
  }
  auto const& config = run().checkpoint_config;
  if (!config.every && config.when_busy == WhenBusy::wait) return;
  std::optional<CheckpointInterval::Seconds> between_failures;
  if (run().between_failures_s > 0) between_failures = CheckpointInterval::Seconds{run().between_failures_s};
  schedule_.emplace(config, between_failures, started_);
}

RAYTRAIN_INLINE auto TrainContext::copies_for(RunShared const& run, Rank rank) -> CheckpointStager::Copies {
  auto const is_neighbour = rank > Rank{0} && std::cmp_less_equal(rank.value, run.checkpoint_config.memory_copies);
  return {.kept = run.copies, .of_replicated = is_neighbour && !run.has_first_rank};
}

RAYTRAIN_INLINE auto TrainContext::first_epoch() const -> int {
  if (!checkpoint() || begins_from_other_run()) return 0;
  auto const epoch = checkpoint()->metrics().number("epoch");
  using Limits = std::numeric_limits<int>;
  auto const is_epoch = epoch && *epoch >= Limits::min() && *epoch < Limits::max();  // and no NaN
  return is_epoch ? static_cast<int>(*epoch) + 1 : static_cast<int>(checkpoint()->training_iteration());
}

RAYTRAIN_INLINE void TrainContext::progress(std::uint64_t done, std::uint64_t total, std::string_view note) {
  check_thread("progress");
  heartbeat();
  if (world_rank() != Rank{0}) return;
  auto const now = run().clock.now();
  auto const complete = total > 0 && done == total;
  if (!complete && now < next_progress_) return;
  next_progress_ = now + std::chrono::milliseconds{100};
  setup_.link.send(Progress{world_rank(), done, total, std::string{note}});
}

RAYTRAIN_INLINE auto TrainContext::dataset_shard(std::string_view name) const -> DatasetShard {
  ShardOptions shard{.name = std::string{name}, .split = is_split(run().data, name)};
  if (auto const& checkpoint = run().checkpoint) {
    shard.rows_before = checkpoint->dataset_rows(shard.name);
    // Each rank may hold other rows of a dataset that is not split; the checkpoint knows rank 0's.
    if (shard.split || world_rank() == Rank{0}) shard.digest_before = checkpoint->dataset_digest(shard.name);
  }
  auto const& given = find_dataset(run().datasets, name);
  if (!run().prepared) return make_shard(given, std::move(shard));
  shard.source = given;
  return make_shard(find_dataset(run().prepared->datasets(), name), std::move(shard));
}

RAYTRAIN_INLINE auto TrainContext::preprocessor() const -> AnyPreprocessor const& {
  if (run().prepared) return run().prepared->preprocessor();
  throw Error{Errc::invalid_call, "TrainContext::preprocessor", "the run has none", "set TrainerConfig::preprocessor"};
}

RAYTRAIN_INLINE auto TrainContext::as_prepared(Dataset const& rows) const -> Dataset {
  if (!run().prepared) return rows;
  auto const transform = [&](Dataset const& batch) { return run().prepared->preprocessor().transform(batch); };
  return map_batches(rows, transform, {.threads = std::max(cpus(), 1)});
}

RAYTRAIN_INLINE auto TrainContext::split_shard(std::string_view name, std::size_t rows,
                                               std::optional<std::uint64_t> rows_before) const -> DatasetShard {
  return make_shard(Dataset::of_rows(rows), {.name = std::string{name}, .rows_before = rows_before});
}

RAYTRAIN_INLINE auto TrainContext::make_shard(Dataset dataset, ShardOptions shard) const -> DatasetShard {
  auto const name = shard.name;
  shard.rank = world_rank();
  shard.world_size = world_size();
  shard.workers = run().workers;
  shard.virtual_shards = run().virtual_shards;
  shard.seed = run().seed;
  if (auto const& checkpoint = run().checkpoint) {
    shard.seed_before = checkpoint->seed();
    if (shard.split || world_rank() == Rank{0}) {  // as of the digest
      shard.position_before = checkpoint->position(name);
      shard.order_before = checkpoint->order(name);
    }
  }
  // A global batch is the same one with another number of workers.
  auto const is_divided = shard.split && run().virtual_shards == 0;
  auto const parts_before = is_divided && run().checkpoint ? run().checkpoint->world_size().value : 1U;
  auto const parts = is_divided ? world_size().value : 1U;
  auto const is_told = shard.split && world_rank() == Rank{0} && !begins_from_other_run();
  auto const position_before = is_told ? shard.position_before : std::nullopt;
  shard.on_batches = [taken = taken_data_, name, &link = setup_.link, before = batch_size_before(name), parts_before,
                      parts, position_before](BatchOptions const& options, auto const& progress) {
    auto const size = static_cast<std::uint64_t>(options.batch_size.value());
    if (!taken->begin_batches(name, progress, size)) return;
    auto const within = options.start.epoch == options.epoch && options.start.samples > 0;
    auto const begins_anew = !within && position_before && position_before->samples > 0 &&
                             position_before->epoch == options.epoch && !taken->is_pinned(name);
    if (begins_anew && taken->is_first_lost_position()) {
      link.send(warning_of_position(name, *position_before, false));
    }
    if (!within || !before) return;
    auto const is_global = options.global_batch_size.has_value();
    auto const was = *before * (is_global ? parts_before : 1);
    auto const is = size * (is_global ? parts : 1);
    if (was == is) return;
    link.send(
        Warning{fmt::format("goes on within epoch {} of dataset '{}', of which {} samples are done in batches of "
                            "{}; batches are of {} now: each row still comes once, but in other steps",
                            options.epoch, name, options.start.samples, was, is)});
  };
  DatasetShard result{std::move(dataset), std::move(shard)};
  taken_data_->add_shard(name, result.progress(), result.is_split());
  return result;
}

RAYTRAIN_INLINE auto TrainContext::dataset_names() const -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& [name, dataset] : run().datasets) names.push_back(name);
  return names;
}

RAYTRAIN_INLINE auto TrainContext::stop_requested() noexcept -> bool {
  auto const agreed = setup_.collective->stop_agreed();
  knew_of_stop_ = knew_of_stop_ || agreed;
  return agreed;
}

RAYTRAIN_INLINE void TrainContext::finish() {
  finished_ = true;
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};
  // A part before that could not be written is no reason to lose the newest state.
  std::exception_ptr failure;
  try {
    stager_.finish_staging();
  } catch (...) {
    failure = std::current_exception();
  }
  stager_.begin_staging_held();
  stager_.finish_staging();
  if (failure) std::rethrow_exception(failure);
}

RAYTRAIN_INLINE void TrainContext::finish_after_failure() noexcept {
  run().failed.request_stop();
  try {
    finish();
  } catch (...) {  // the cause is told of
  }
}

RAYTRAIN_INLINE auto TrainContext::batch_size_before(std::string_view dataset) const -> std::optional<std::uint64_t> {
  if (world_rank() != Rank{0} || !run().checkpoint) return std::nullopt;
  return run().checkpoint->batch_size(std::string{dataset});
}

RAYTRAIN_INLINE void TrainContext::wait_for_earlier_commits() {
  // Beside a copy that is kept there is memory for one more.
  std::size_t const most_uncommitted = run().copies ? 1 : 8;
  if (written_.size() < most_uncommitted) return;
  setup_.link.wait_committed_for(written_.front().checkpoint, std::chrono::seconds{1});
  written_.pop_front();
}

RAYTRAIN_INLINE void TrainContext::barrier_before_commit() {
  try {
    setup_.collective->barrier();
  } catch (Error const& error) {
    throw_unequal_reports(error);
  }
}

RAYTRAIN_INLINE auto TrainContext::agree_on_fate() -> CheckpointSchedule::Fate {
  using Fate = CheckpointSchedule::Fate;
  if (!schedule_) return Fate::write;
  if (agreed_fate_) return *agreed_fate_;
  agreed_at_ = SignsOfLife::Clock::now();
  auto fate = world_rank() == Rank{0} ? next_fate() : Fate::skip;
  if (told_to_stop()) fate = Fate::write;  // the last one
  auto wish = static_cast<std::uint8_t>(fate);
  try {
    // None goes on before all are here: where one fails, all hold the same state.
    setup_.collective->all_reduce(std::span{&wish, 1}, ReduceOp::max);
  } catch (Error const& error) {
    throw_unequal_reports(error);
  }
  agreed_fate_ = static_cast<Fate>(wish);
  return *agreed_fate_;
}

RAYTRAIN_INLINE auto TrainContext::next_fate() -> CheckpointSchedule::Fate {
  auto is_busy = false;
  if (!written_.empty()) {
    auto& last = written_.back();
    auto const settled = setup_.link.settled(last.checkpoint);
    is_busy = !settled;
    auto const is_new = settled && !std::exchange(last.cost_is_known, true);
    // What a disk refuses at once says nothing of what a checkpoint costs.
    if (is_new && settled->is_committed) schedule_->note_cost(settled->at - last.reported);
  }
  return schedule_->next(run().clock.now(), is_busy);
}

RAYTRAIN_INLINE void TrainContext::throw_unequal_reports(Error const& error) {
  throw Error{error.code(), "TrainContext::report with a checkpoint", error.happened(),
              "call report with a checkpoint equally often on every rank"};
}

RAYTRAIN_INLINE void TrainContext::fill(CheckpointDraft& draft) {
  check_thread("report");
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};
  switch (agree_on_fate()) {
    case CheckpointSchedule::Fate::skip: break;
    case CheckpointSchedule::Fate::hold: stager_.fill_to_hold(draft); break;
    case CheckpointSchedule::Fate::write:
      wait_for_earlier_commits();
      stager_.fill(draft);
      break;
  }
}

RAYTRAIN_INLINE void TrainContext::send(Reported reported) {
  submit(to_report(std::move(reported)));
  throw_if_stopping();
}

RAYTRAIN_INLINE void TrainContext::send(Reported reported, CheckpointDraft draft) {
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};
  submit_with_checkpoint(to_report(std::move(reported)), std::move(draft));
  throw_if_stopping();
}

RAYTRAIN_INLINE auto TrainContext::to_report(Reported reported) -> Report {
  if (!reported.has_checked_names || !identity_checked_) {
    std::vector<std::string> names;
    for (auto const& entry : reported.metrics) names.push_back(entry.name);
    if (!reported.has_checked_names) detail::check_field_names(names);
    if (!identity_checked_) check_identity(names);
  }
  Report report;
  report.metrics = std::move(reported.metrics);
  return report;
}

RAYTRAIN_INLINE void TrainContext::submit_with_checkpoint(Report report, CheckpointDraft draft) {
  using Fate = CheckpointSchedule::Fate;
  if (taken_data_->is_within_step()) {
    throw Error{Errc::invalid_call, "a checkpoint of virtual shards",
                "is asked for within a step, whose batches come again when the run goes on from it",
                "report it, or hand it over, behind a batch of which ends_step() is true"};
  }
  auto const fate = agree_on_fate();
  fill(draft);  // does nothing where the context has filled it
  agreed_fate_.reset();
  if (fate == Fate::skip) return submit(std::move(report));
  // That of this run, also where the draft is of another run's checkpoint.
  std::string const preprocessor_file{detail::CheckpointedPreprocessor::file_name};
  draft.remove(preprocessor_file);
  if (run().prepared && world_rank() == Rank{0}) draft.set_for_all(preprocessor_file, run().prepared->json());
  auto const checkpoint = next_checkpoint_;
  report.checkpoint = checkpoint;
  report.replaces = std::exchange(held_checkpoint_, fate == Fate::hold ? std::optional{checkpoint} : std::nullopt);
  ++next_checkpoint_.value;
  submit(std::move(report));
  if (fate == Fate::hold) return stager_.hold(std::move(draft), checkpoint, taken_data_->state());
  written_.push_back({checkpoint, agreed_at_});
  if (schedule_) schedule_->note_written(last_report_);
  stager_.begin_staging(std::move(draft), checkpoint, taken_data_->state());
  if (run().checkpoint_config.mode == CheckpointMode::sync) {
    stager_.finish_staging();
    barrier_before_commit();
    setup_.link.wait_committed(checkpoint);
  }
}

RAYTRAIN_INLINE auto TrainContext::may_hand_over() -> bool {
  check_thread("hand_over");
  if (!stop_requested()) {
    throw Error{Errc::invalid_call, "TrainContext::hand_over", "was called although nobody has asked for a stop",
                "write if (ctx.stop_requested()) ctx.hand_over(...), or report the state"};
  }
  return !taken_data_->is_between_epochs();
}

RAYTRAIN_INLINE void TrainContext::hand_over(CheckpointDraft draft) {
  if (!may_hand_over()) return;
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};
  Report report;
  report.hands_over = true;
  submit_with_checkpoint(std::move(report), std::move(draft));
  throw Stopped{};
}

RAYTRAIN_INLINE auto TrainContext::restore(DatasetShard& shard) const -> int {
  keep_position_of(shard);
  if (!checkpoint() || begins_from_other_run()) return 0;
  auto const position = checkpoint()->position(shard.name());
  if (!position) return epoch_without_position();
  shard.begin_at(*position);
  return static_cast<int>(position->epoch);
}

RAYTRAIN_INLINE auto TrainContext::epoch_without_position() const -> int {
  auto const first = first_epoch();
  if (!checkpoint() || begins_from_other_run() || world_rank() != Rank{0}) return first;
  // That is trained on, as `TakenData` knows it: of those that workers share, where there are such.
  auto const is_shared = [&](std::string const& name) {
    return is_split(run().data, name) || !run().datasets.contains(name);
  };
  auto const positions = checkpoint()->positions();
  auto const at = std::ranges::max_element(positions, {}, [&](auto const& each) {
    return std::tuple{is_shared(each.first) && checkpoint()->batch_size(each.first), each.second};
  });
  if (at == positions.end() || at->second.samples == 0 || taken_data_->is_pinned(at->first)) return first;
  auto const is_skipped = first > at->second.epoch;
  if (taken_data_->is_first_lost_position()) {
    setup_.link.send(warning_of_position(at->first, at->second, is_skipped));
  }
  return first;
}

RAYTRAIN_INLINE auto TrainContext::warning_of_position(std::string const& dataset, ShardPosition const& position,
                                                       bool is_skipped) -> Warning {
  return {Rank{0},
          fmt::format(
              "the checkpoint is within epoch {0} of dataset '{1}', of which {2} samples are done, and "
              "restore() was given no shard of that name: {3}; give it the shard of '{1}', unless the program "
              "leaves its epochs there",
              position.epoch, dataset, position.samples,
              is_skipped ? "the rest of that epoch is skipped" : "that epoch begins anew, with those samples, too")};
}

RAYTRAIN_INLINE void TrainContext::keep_position_of(DatasetShard const& shard) const {
  taken_data_->pin(shard.name(), shard.progress());
}

RAYTRAIN_INLINE void TrainContext::submit(Report report) {
  auto const now = run().clock.now();
  report.rank = world_rank();
  report.training_iteration = report.hands_over ? training_iteration_ : ++training_iteration_;
  report.time_this_iter_s = std::chrono::duration<double>{now - last_report_}.count();
  report.time_total_s = time_before_s_ + std::chrono::duration<double>{now - started_}.count();
  report.timestamp_ns = std::chrono::nanoseconds{run().clock.wall_now().time_since_epoch()}.count();
  last_report_ = now;
  auto const away = setup_.link.signs_of_life().time_away();
  report.time_waiting_s = std::chrono::duration<double>{away - std::exchange(away_before_, away)}.count();
  SignsOfLife::During const reports{SignsOfLife::Activity::reports};
  setup_.link.send(std::move(report));
}

RAYTRAIN_INLINE void TrainContext::check_thread(char const* function) const {
  if (std::this_thread::get_id() != owner_) {
    throw Error{Errc::invalid_call, std::string{"TrainContext::"} + function,
                "was called from another thread than the worker's own", "call it from the training function"};
  }
  if (finished_) {
    throw Error{Errc::invalid_call, std::string{"TrainContext::"} + function,
                "was called after the training function had returned", "call it before"};
  }
}

RAYTRAIN_INLINE void TrainContext::check_identity(std::vector<std::string> const& fields) {
  identity_checked_ = true;
  if (world_rank() != Rank{0}) return;
  auto const of_identity = [this](std::vector<std::string> names) {
    std::erase_if(names, [this](std::string const& name) {
      return std::ranges::find(not_of_identity_, name) != not_of_identity_.end();
    });
    return names;
  };
  check_known_fields({.known = of_identity(run().known_report_fields), .reported = of_identity(fields)},
                     run().run_path);
}

RAYTRAIN_INLINE void TrainContext::warn(std::string text) { setup_.link.send(Warning{world_rank(), std::move(text)}); }

RAYTRAIN_INLINE void TrainContext::print_line(std::string text) {
  setup_.link.send(PrintedLine{Rank{0}, std::move(text)});
}

RAYTRAIN_INLINE void TrainContext::throw_if_stopping() {
  if (!told_to_stop()) return;
  knew_of_stop_ = true;
  throw Stopped{};
}

}  // namespace raytrain
