// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/signal_thread.hpp>
#include <raytrain/exec/signals.hpp>
#include <raytrain/launch/controller_connection.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/detail/resume_point.hpp>
#include <raytrain/train/detail/run_follower.hpp>
#include <raytrain/train/detail/stop_signals.hpp>
#include <raytrain/train/detail/worker_runner.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE RunFollower::RunFollower(Job& job, Plan plan)
    : job_{job},
      plan_{std::move(plan)},
      executor_{plan_.fit.clock},
      events_{executor_, event_capacity},
      connection_{
          plan_.connect({.on_message = [this](ControllerMessage message) { events_.push(Event{std::move(message)}); },
                         .on_lost = [this](std::string why) { events_.push(Event{Lost{std::move(why)}}); }})} {
  connect_worker(Attempt{});
}

RAYTRAIN_INLINE void RunFollower::run_to_end() {
  std::optional<StopSignals> signals;
  std::optional<SignalThread> notices;
  if (plan_.fit.run.handle_signals && plan_.is_supervised) {
    notices.emplace(
        SignalWatcher::heeded({SIGTERM}), [this](int) { events_.push(Event{Preempted{}}); },
        plan_.launcher_ends_job ? ::getppid() : 0);
  } else if (plan_.fit.run.handle_signals) {
    signals.emplace(what(), [this](std::uint32_t times) { events_.push(Event{StopRequest{job_.rank(), times}}); });
  }
  executor_.run(drive());
  leave_job();
  if (lost_) {
    throw Error{Errc::worker_failed, what(), lost_text(),
                "read what its process says; the next start goes on from the last checkpoint"};
  }
}

RAYTRAIN_INLINE auto RunFollower::run() -> Result {
  run_to_end();
  return result_of(*ended_, store_.get());
}

RAYTRAIN_INLINE auto RunFollower::lost_text() const -> std::string {
  return "the connection to " + plan_.controller + " ended: " + *lost_;
}

RAYTRAIN_INLINE void RunFollower::leave_job() noexcept {
  if (!ended_) link_->deliver(Stop{true});
  if (is_stuck_) {
    job_.leave_workers_behind({{job_.rank()},
                               "raytrain: " + what() +
                                   " ends without its worker, which did not return: " + lost_text() +
                                   "; this process ends with exit status 75, start it again to go on from the last "
                                   "checkpoint\n"});
  }
  job_.join_worker();
  connection_->end();
  store_thread_.reset();
}

RAYTRAIN_INLINE void RunFollower::take(Event& event) {
  if (auto* const lost = std::get_if<Lost>(&event)) {
    lost_ = std::move(lost->why);
    return;
  }
  if (auto const* const worker = std::get_if<WorkerEnded>(&event)) {
    if (worker->attempt == link_->attempt()) works_ = false;
    return;
  }
  if (auto const* const request = std::get_if<StopRequest>(&event)) {
    (void)connection_->sink().send(*request);  // this process was asked
    return;
  }
  if (std::holds_alternative<Preempted>(event)) {
    (void)connection_->sink().send(Preempted{job_.rank(), link_->attempt()});
    return;
  }
  std::visit([this](auto& what) { on(what); }, std::get<ControllerMessage>(event));
}

RAYTRAIN_INLINE void RunFollower::on(Begin& begin) {
  try {
    launch(begin);
  } catch (...) {
    Failed failed{current_error().with_origin(job_.rank(), this_host().hostname)};
    failed.attempt = begin.attempt;
    (void)connection_->sink().send(std::move(failed));
  }
}

RAYTRAIN_INLINE void RunFollower::on(Stop const& stop) {
  if (plan_.fit.run.handle_signals && !plan_.is_supervised && !stop.goes_on) StopSignals::drop_echoes();
  link_->deliver(stop);
}

RAYTRAIN_INLINE void RunFollower::connect_worker(Attempt attempt) {
  link_.emplace(job_.placement(), connection_->sink(), attempt);
}

RAYTRAIN_INLINE void RunFollower::open_run(Begin const& begin) {
  std::filesystem::path const path{begin.run_path};
  check_same_folder(path, begin);
  if (store_ != nullptr) return;
  store_thread_.emplace();
  store_ = open_store(plan_.fit.run.checkpoint.store, path);
  store_->begin(StartId{begin.start, begin.start_id}, begin.run_id);
}

RAYTRAIN_INLINE void RunFollower::launch(Begin& begin) {
  job_.join_worker();
  job_.prepare(begin);
  connect_worker(begin.attempt);  // only now it is known where the worker stands
  plan_.prepare();
  open_run(begin);
  if (copies_) copies_->drop_uncommitted();
  auto checkpoint = begin.checkpoint ? store_->open(*begin.checkpoint).with_copies(copies_)
                                     : open_source(plan_.fit.run.resume_from_checkpoint);
  auto const shared = shared_by_workers(plan_.fit, begin,
                                        {.range = plan_.workers,
                                         .checkpoint = std::move(checkpoint),
                                         .store = *store_,
                                         .store_thread = *store_thread_,
                                         .hang_watch = hang_watch_,
                                         .copies = copies_});
  auto const work = [shared, this, attempt = begin.attempt](Worker worker) {
    run_worker(std::move(worker), shared, plan_.fit.training);
    events_.push(Event{WorkerEnded{attempt}});
  };
  job_.start_worker(work, *link_, [this](std::string const& text) { link_->send(Warning{job_.rank(), text}); });
  works_ = true;
}

RAYTRAIN_INLINE void RunFollower::check_same_folder(std::filesystem::path const& path, Begin const& begin) {
  auto const refuse = [&](std::string const& happened) {
    throw Error{Errc::invalid_config, "RunConfig::storage_path",
                "host " + this_host().hostname + " does not see the run's folder '" + path.string() +
                    "' as rank 0 does: " + happened,
                "name a folder that all hosts share, on NFS or the like"};
  };
  try {
    auto const record = read_run_record(path);
    if (record.starts != begin.start || record.started_at != begin.started_at) {
      refuse("its run.json is of start " + std::to_string(record.starts) + " at " + record.started_at +
             ", and rank 0 wrote that of start " + std::to_string(begin.start) + " at " + begin.started_at);
    }
  } catch (Error const& error) {
    if (error.code() == Errc::invalid_config) throw;
    refuse(error.happened());
  }
}

}  // namespace raytrain::detail
