// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/detail/survivors.hpp>
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
  auto const environment = job_environment();
  if (environment && environment->launcher == torchrun_name) throw started_by_torchrun(*environment);
  if (rendezvous != nullptr) return rendezvous;
  throw Error{Errc::invalid_config, "ScalingConfig::launch",
              (environment ? "this process is one of " + std::to_string(environment->size.value) + " that " +
                                 environment->launcher + " has started, and the program"
                           : std::string{"ranks are asked for, and the program"}) +
                  " was built without ranks",
              "write #include <raytrain/launch/ranks.hpp> beside main and build with pkg-config raytrain-mpi; or " +
                  std::string{environment ? "Launch::threads, to train in each process by itself"
                                          : "Launch::processes, which needs no MPI"}};
}

RAYTRAIN_INLINE auto difference_of(std::vector<SharedSetting> const& here, std::vector<SharedSetting> const& there,
                                   std::string const& where) -> std::string {
  for (auto const& [name, value] : here) {
    auto const other = std::ranges::find(there, name, &SharedSetting::name);
    if (other != there.end() && other->value == value) continue;
    return name + " is " + value + ", and " + where + " it is " + (other == there.end() ? "missing" : other->value);
  }
  return {};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE RankJob::RankJob(JobRequest request) : request_{std::move(request)} {
  renew_world([this] { return come_together(); });
  join(detail::difference_of(request_.settings, broadcast(request_.settings), "on rank 0"));
}

RAYTRAIN_INLINE RankJob::RankJob(JobRequest request, JobEnvironment const& environment) : request_{std::move(request)} {
  placement_ = {.world_rank = environment.rank, .world_size = environment.size};
  rank_of_process_ = environment.rank;
}

RAYTRAIN_INLINE void RankJob::join(std::string const& difference) {
  auto const refusal = [](std::string why) {
    return why.empty() ? std::nullopt : std::optional{ErrorInfo{Errc::invalid_config, {}, std::move(why)}};
  };
  fail_together("comparing this run's settings on all ranks", refusal(difference));
  place();
  fail_together("ScalingConfig::num_workers", refusal(size_problem()));
}

RAYTRAIN_INLINE auto RankJob::come_together() const -> std::unique_ptr<JobWorld> {
  return detail::rendezvous_of_program()(request_, on_warning());
}

RAYTRAIN_INLINE void RankJob::prepare(Begin const& begin) {
  if (processes_.empty()) {
    renew_world([this] { return come_together(); });
    join(detail::difference_of(request_.settings, begin.settings, "in the program that has started the job"));
  } else if (begin.attempt > Attempt{}) {
    auto const shrinks = begin.lost_ranks != request_.lost_ranks;
    request_.lost_ranks = begin.lost_ranks;
    if (shrinks) placement_.world_rank = detail::rank_without(request_.lost_ranks, rank_of_process_);
    renew_world([this] { return come_together(); });
    if (shrinks) place();
  }
}

RAYTRAIN_INLINE auto RankJob::failure_of(Rank rank, ErrorInfo error) const -> Failed {
  return Failed{std::move(error).with_origin(rank, process_of(rank).hostname)};
}

RAYTRAIN_INLINE void RankJob::fail_together(std::string const& attempted, std::optional<ErrorInfo> const& problem) {
  detail::RankProblem mine;
  if (problem) {
    auto const step = problem->attempted.empty() ? "" : problem->attempted + ": ";
    mine = {true, problem->code, step + problem->happened, problem->remedy};
  }
  auto problems = together([&] { return detail::all_gather_objects(*world_->collective, mine); });
  for (std::uint32_t rank = 0; rank < problems.size(); ++rank) {
    auto& [is_there, code, happened, remedy] = problems[rank];
    if (!is_there) continue;
    auto const where = processes_.empty() ? "" : " on " + processes_[rank].hostname;
    throw Error{code, attempted, "rank " + std::to_string(rank) + where + ": " + happened, std::move(remedy)};
  }
}

RAYTRAIN_INLINE void RankJob::place() {
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
  cores_.emplace(request_.scaling, std::max(sharers, 1U));
  placement_ = {.world_rank = me,
                .world_size = world_->collective->size(),
                .local_rank = Rank{local_rank},
                .local_world_size = WorldSize{local_size},
                .node_rank = Rank{node},
                .cpus = cores_->cpus(),
                .host_cpus = static_cast<int>(cores.size())};
  detail::set_rank_variables(placement_);
}

RAYTRAIN_INLINE auto RankJob::size_problem() const -> std::string {
  auto const& wanted = request_.scaling.num_workers;
  auto const is_wanted = wanted.fewest_or(size().value) <= size().value && size().value <= wanted.most_or(size().value);
  if (is_wanted) return {};
  return "is " + wanted.text() + ", and the job has " + std::to_string(size().value) +
         " ranks: leave it unset, or start as many";
}

}  // namespace raytrain
