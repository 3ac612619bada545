// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto rendezvous_of_program() -> Rendezvous {
  if (rendezvous != nullptr) return rendezvous;
  auto const environment = job_environment();
  throw Error{Errc::invalid_config, "ScalingConfig::launch",
              (environment ? "this process is one of " + std::to_string(environment->size.value) + " that " +
                                 environment->launcher + " has started, and the program"
                           : std::string{"Launch::ranks is asked for, and the program"}) +
                  " was built without ranks",
              "write #include <raytrain/launch/ranks.hpp> beside main and build with pkg-config raytrain-mpi; or "
              "Launch::threads, to train in each process by itself"};
}

RAYTRAIN_INLINE void WarningRelay::send_to(std::function<void(std::string const&)> to) {
  std::scoped_lock const lock{mutex_};
  to_ = std::move(to);
  is_taken_ = true;
}

RAYTRAIN_INLINE void WarningRelay::tell(std::string const& text) {
  auto const [to, is_taken] = [this] {
    std::scoped_lock const lock{mutex_};
    return std::pair{to_, is_taken_};
  }();
  if (!is_taken) write_stderr("raytrain: " + text + '\n');
  if (to) to(text);
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE RankJob::RankJob(JobRequest const& request)
    : scaling_{request.scaling}, collective_timeout_{request.collective_timeout}, world_{come_together()} {
  compare(request.settings);
  place(request.scaling);
  fail_together(size_problem(request.scaling), Errc::invalid_config, "ScalingConfig::num_workers");
}

RAYTRAIN_INLINE auto RankJob::come_together() const -> std::unique_ptr<RankWorld> {
  return detail::rendezvous_of_program()({.scaling = scaling_, .collective_timeout = collective_timeout_},
                                         [to = warnings_](std::string const& text) { to->tell(text); });
}

RAYTRAIN_INLINE void RankJob::renew() {
  // The process has one at a time.
  std::unique_ptr<RankWorld> spent;
  {
    std::scoped_lock const lock{world_mutex_};
    spent = std::move(world_);
  }
  spent.reset();
  auto made = come_together();
  std::scoped_lock const lock{world_mutex_};
  world_ = std::move(made);
  if (abandoned_) world_->abandon();
}

RAYTRAIN_INLINE void RankJob::leave(RankReturned const& left) noexcept {
  std::scoped_lock const lock{world_mutex_};
  if (world_ != nullptr) world_->group->leave(left.rank, left.operations);
}

RAYTRAIN_INLINE void RankJob::abandon() noexcept {
  std::scoped_lock const lock{world_mutex_};
  abandoned_ = true;
  if (world_ != nullptr) world_->abandon();
}

RAYTRAIN_INLINE auto RankJob::failure_of(Rank rank, ErrorInfo error) const -> Failed {
  return Failed{std::move(error).with_origin(rank, process_of(rank).hostname)};
}

RAYTRAIN_INLINE void RankJob::fail_together(std::string const& problem, Errc code, std::string const& attempted) {
  auto const problems = together([&] { return detail::all_gather_objects(*world_->collective, problem); });
  for (std::uint32_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    auto const where = processes_.empty() ? "" : " on " + processes_[rank].hostname;
    throw Error{code, attempted, "rank " + std::to_string(rank) + where + ": " + problems[rank]};
  }
}

RAYTRAIN_INLINE void RankJob::start_worker(WorkerMain main, WorkerLink& link,
                                           std::function<void(std::string const&)> on_warning) {
  warnings_->send_to(std::move(on_warning));
  try {
    worker_ = std::jthread{[this, main = std::move(main), &link] {
      cores_->take(placement_);
      main(Worker{link, world_->group, std::move(world_->collective)});
    }};
  } catch (std::system_error const& error) {
    throw Error{Errc::worker_failed, "starting the worker of rank " + std::to_string(rank().value),
                std::string{"the system gave no thread ("} + error.what() + ")",
                "raise the limit on processes (ulimit -u)"};
  }
}

RAYTRAIN_INLINE void RankJob::end_worker() noexcept {
  if (!left_behind_ && worker_.joinable()) worker_.join();
  warnings_->send_to(nullptr);
}

RAYTRAIN_INLINE void RankJob::leave_behind(LeftBehind const& left) noexcept {
  // MPI could not end without their processes, nor a process without its worker.
  abandon();
  if (std::ranges::find(left.ranks, rank()) == left.ranks.end()) return;
  left_behind_ = true;
  detail::write_stderr(left.exit_text);
}

RAYTRAIN_INLINE void RankJob::end() noexcept {
  if (left_behind_) detail::end_process();
}

RAYTRAIN_INLINE void RankJob::compare(std::vector<SharedSetting> const& settings) {
  auto const first = broadcast(settings);
  std::string problem;
  for (auto const& [name, value] : settings) {
    auto const there = std::ranges::find(first, name, &SharedSetting::name);
    if (!problem.empty() || (there != first.end() && there->value == value)) continue;
    problem = name + " is " + value + ", and on rank 0 it is " + (there == first.end() ? "missing" : there->value);
  }
  fail_together(problem, Errc::invalid_config, "comparing this run's settings on all ranks");
}

RAYTRAIN_INLINE void RankJob::place(ScalingConfig const& scaling) {
  auto const me = world_->collective->rank();
  auto const host = this_host();
  auto const first_here = world_->first_rank_of_host().value;
  auto const mine = usable_cores();
  processes_ = together([&] {
    return detail::all_gather_objects(*world_->collective,
                                      detail::RankProcess{host.hostname, host.pid, first_here, mine});
  });

  std::set<int> cores;
  std::uint32_t node = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint32_t sharers = 0;  // of a core of this process: a launcher may have given each rank its own
  for (std::uint32_t other = 0; other < processes_.size(); ++other) {
    auto const& process = processes_[other];
    if (process.first_here == other && other < first_here) ++node;
    if (process.first_here != first_here) continue;
    ++local_size;
    if (other < me.value) ++local_rank;
    cores.insert(process.cores.begin(), process.cores.end());
    if (std::ranges::find_first_of(process.cores, mine) != process.cores.end()) ++sharers;
  }
  cores_.emplace(scaling, std::max(sharers, 1U));
  placement_ = {.world_rank = me,
                .world_size = world_->collective->size(),
                .local_rank = Rank{local_rank},
                .local_world_size = WorldSize{local_size},
                .node_rank = Rank{node},
                .cpus = cores_->cpus(),
                .host_cpus = static_cast<int>(cores.size())};
}

RAYTRAIN_INLINE auto RankJob::size_problem(ScalingConfig const& scaling) const -> std::string {
  auto const wanted = scaling.num_workers.value_or(size().value);
  if (wanted == size().value) return {};
  return "is " + std::to_string(wanted) + ", and the job has " + std::to_string(size().value) +
         " ranks: leave it unset, or start as many";
}

}  // namespace raytrain
