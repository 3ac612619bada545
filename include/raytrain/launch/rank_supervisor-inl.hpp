// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/host_check.hpp>
#include <raytrain/launch/detail/job_hosts.hpp>
#include <raytrain/launch/detail/placement_options.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/rank_supervisor.hpp>
#include <raytrain/launch/supervised_job.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// Whether this starts a job that goes on without ranks that are lost: Open MPI's option, in either form.
RAYTRAIN_INLINE auto asks_for_ulfm(std::vector<std::string> const& command) -> bool {
  auto const is_ulfm = [](std::string const& value) { return value == "ulfm" || value == "mpi"; };
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--with-ft" && i + 1 < command.size()) return is_ulfm(command[i + 1]);
    if (command[i].starts_with("--with-ft=")) return is_ulfm(command[i].substr(command[i].find('=') + 1));
  }
  return false;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE RankSupervisor::RankSupervisor(SupervisorOptions options)
    : Supervisor{std::move(options)}, survives_losses_{detail::asks_for_ulfm(options_.scaling.job_command)} {
  for (auto& word : detail::placement_options(options_.scaling)) {
    options_.scaling.job_command.push_back(std::move(word));
  }
  check_resources();
  range_.wanted = room_.workers = range_.most;
  size_ = std::clamp(room().workers, range_.fewest, range_.most);
}

RAYTRAIN_INLINE RankSupervisor::~RankSupervisor() {
  workers_.close();
  give_job_up();
}

RAYTRAIN_INLINE auto RankSupervisor::leave_out_lost_hosts() -> std::vector<std::string> {
  {
    std::scoped_lock const lock{mutex_};
    if (!std::exchange(host_may_be_lost_, false)) return {};
  }
  auto const left_out_before = left_out();
  auto const limit = options_.scaling.start_timeout;
  SystemClock const clock;
  auto const due = limit.count() == 0 ? Clock::TimePoint::max() : clock.after(limit);
  for (auto is_told = false;; is_told = true) {
    auto const hosts = this->hosts();
    if (hosts.names().size() < 2) return {};
    auto good = host_check_.answering(hosts, detail::without(hosts.names(), left_out_before));
    if (good.empty() || !are_enough(hosts, good)) take_back(hosts, good, left_out_before);
    if (good.empty()) return {};  // no host's fault, then: the next job says it
    leave_out(hosts, detail::without(hosts.names(), good));
    if (are_enough(hosts, good)) return detail::without(left_out(), left_out_before);
    if (clock.now() > due) refuse_too_few(hosts, good);
    if (!is_told) {
      workers_.push(Warning{"waits for hosts: no answer comes from " + detail::listed(left_out()) + ", and " +
                            too_few(hosts, good)});
    }
    if (!host_check_.pause(ask_again_after)) return {};
  }
}

RAYTRAIN_INLINE void RankSupervisor::take_back(detail::JobHosts const& hosts, std::vector<std::string>& good,
                                               std::vector<std::string> const& candidates) {
  for (auto const& host : host_check_.answering(hosts, candidates)) {
    if (std::ranges::find(good, host) != good.end()) continue;
    workers_.push(Warning{"host " + host + " answers again, and may be used again"});
    good.push_back(host);
  }
}

RAYTRAIN_INLINE auto RankSupervisor::named_hosts() const -> detail::JobHosts {
  std::map<std::string, double> needs;
  for (auto const& [name, amount] : options_.scaling.resources_per_worker.custom) needs[name] += amount;
  return detail::JobHosts{options_.scaling.job_command, std::move(needs)};
}

RAYTRAIN_INLINE void RankSupervisor::check_resources() const {
  auto const& needs = options_.scaling.resources_per_worker.custom;
  if (needs.empty()) return;
  auto const hosts = named_hosts();
  auto const workers = hosts.slots_of(hosts.names()).value_or(0);
  if (workers >= range_.fewest.value) return;
  auto const& name = needs.front().name;
  throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.custom",
              "hosts that say how much they have, and have enough, have it for " + std::to_string(workers) + " of " +
                  options_.scaling.num_workers.text() + " workers",
              "write it into the lines of the host file, as \"alpha slots=4 " + name +
                  "=2\", which .job_command = {\"mpirun\", \"--hostfile\", FILE} names"};
}

RAYTRAIN_INLINE auto RankSupervisor::hosts() -> detail::JobHosts {
  auto now = named_hosts();
  std::scoped_lock const lock{mutex_};
  auto const shrinks = hosts_seen_ && have_room(*hosts_seen_) && !have_room(now);
  if (!now.names().empty() && !shrinks) hosts_seen_ = now;
  return hosts_seen_.value_or(std::move(now));
}

RAYTRAIN_INLINE auto RankSupervisor::room() -> Room {
  auto const hosts = this->hosts();
  std::scoped_lock const lock{mutex_};
  if (!hosts.names().empty()) {
    auto const most = std::uint64_t{range_.most.value};
    auto const slots = hosts.slots_of(detail::without(hosts.names(), left_out_)).value_or(most);
    room_.workers = {static_cast<std::uint32_t>(std::min(slots, most))};
    room_.moves = !detail::without(job_hosts_, hosts.names()).empty();
  }
  auto room = room_;
  auto const go_on =
      !survivors_.lost().empty() && !job_is_spent_ && std::chrono::steady_clock::now() < replace_lost_at_;
  if (go_on) room.workers = std::min(room.workers, survivors_.left());
  return room;
}

RAYTRAIN_INLINE auto RankSupervisor::look_for_room() -> Room {
  auto const left_out_before = left_out();
  look_at_new_hosts();
  if (!left_out_before.empty() && is_time_to_ask_again()) {
    std::vector<std::string> back;
    take_back(hosts(), back, left_out_before);
    std::scoped_lock const lock{mutex_};
    left_out_ = detail::without(left_out_, back);  // others may be left out meanwhile
    asked_again_ = std::chrono::steady_clock::now();
  }
  return room();
}

RAYTRAIN_INLINE void RankSupervisor::replace_lost() {
  std::scoped_lock const lock{mutex_};
  replace_lost_at_ = {};
}

RAYTRAIN_INLINE void RankSupervisor::look_at_new_hosts() {
  auto const hosts = this->hosts();
  std::vector<std::string> fresh;
  {
    std::scoped_lock const lock{mutex_};
    fresh = detail::without(detail::without(hosts.names(), known_hosts_), left_out_);
  }
  if (fresh.empty()) return;
  auto const good = host_check_.answering(hosts, fresh);
  auto const silent = detail::without(fresh, good);
  if (!silent.empty()) {
    workers_.push(
        Warning{"no answer comes from " + detail::listed(silent) + ": the workers do without until it answers"});
  }
  std::scoped_lock const lock{mutex_};
  known_hosts_.insert(known_hosts_.end(), good.begin(), good.end());
  left_out_.insert(left_out_.end(), silent.begin(), silent.end());
  asked_again_ = std::chrono::steady_clock::now();
}

RAYTRAIN_INLINE auto RankSupervisor::watches_room() const noexcept -> bool {
  return range_.is_elastic() && (survives_losses_ || !named_hosts().names().empty());
}

RAYTRAIN_INLINE auto RankSupervisor::are_enough(detail::JobHosts const& hosts,
                                                std::vector<std::string> const& names) const -> bool {
  return !hosts.slots_of(hosts.names()) || !have_room(hosts) || *hosts.slots_of(names) >= range_.fewest.value;
}

RAYTRAIN_INLINE auto RankSupervisor::have_room(detail::JobHosts const& hosts) const -> bool {
  auto const slots = hosts.slots_of(hosts.names());
  return !slots || *slots >= range_.fewest.value;
}

RAYTRAIN_INLINE auto RankSupervisor::too_few(detail::JobHosts const& hosts, std::vector<std::string> const& left) const
    -> std::string {
  return "what is left (" + detail::listed(left) + ") has " + std::to_string(*hosts.slots_of(left)) + " slots for " +
         options_.scaling.num_workers.text() + " ranks";
}

RAYTRAIN_INLINE void RankSupervisor::refuse_too_few(detail::JobHosts const& hosts,
                                                    std::vector<std::string> const& left) {
  throw Error{Errc::worker_failed, "starting the ranks again on the hosts that are left",
              "no answer comes from " + detail::listed(left_out()) + ", and " + too_few(hosts, left),
              "repair a host, or name more of them in ScalingConfig::job_command"};
}

RAYTRAIN_INLINE auto RankSupervisor::command() -> detail::JobCommand {
  auto const hosts = this->hosts();
  auto used = detail::without(hosts.names(), left_out());
  // A file that is gone, has become too small, or is not as launchers read it, is made anew.
  auto const is_as_it_was =
      used.size() == hosts.names().size() && !hosts.is_to_be_rewritten() && named_hosts().hosts() == hosts.hosts();
  auto command = is_as_it_was ? detail::JobCommand{.words = options_.scaling.job_command} : hosts.command_on(used);
  std::scoped_lock const lock{mutex_};
  known_hosts_ = used;
  job_hosts_ = std::move(used);
  return command;
}

RAYTRAIN_INLINE auto RankSupervisor::keeps_process_of(Rank rank) -> bool {
  std::scoped_lock const lock{mutex_};
  return !job_is_spent_ && preempted_.empty() && survivors_.has(rank, workers_.attempt());
}

RAYTRAIN_INLINE void RankSupervisor::launch(WorkerLaunch what) {
  auto is_preempted = false;
  auto const is_spent = [&] {
    // A rank that is lost meanwhile is so in this attempt, or the job is known to be spent.
    std::scoped_lock const lock{mutex_};
    workers_.open(what.queue, what.begin.attempt);
    is_signalled_ = false;
    if (!job_is_spent_) loss_is_told_ = failure_is_told_ = ends_by_preemption_ = false;
    survivors_.begin(what.begin.attempt);  // of the job that is there; another one has all its ranks
    what.begin.lost_ranks = survivors_.lost();
    auto const lost = survivors_.lost();
    is_preempted = std::ranges::any_of(std::exchange(preempted_, {}),
                                       [&](Rank rank) { return std::ranges::find(lost, rank) == lost.end(); });
    if (is_preempted) ++job_number_;  // what its processes still say is of no attempt
    return job_is_spent_;
  }();
  if (is_spent) give_job_up();
  if (job_ != nullptr && (is_preempted || survivors().left() != size_ || room().moves)) dismiss_job();
  if (job_ == nullptr) {
    what.begin.lost_ranks.clear();
    start_job(what.begin.run_path);
  }
  what.begin.settings = options_.settings;
  job_->tell(what.begin);
}

RAYTRAIN_INLINE void RankSupervisor::start_job(std::string const& folder) {
  std::uint64_t number = 0;
  {
    std::scoped_lock const lock{mutex_};
    job_is_spent_ = loss_is_told_ = failure_is_told_ = ends_by_preemption_ = false;
    preempted_.clear();
    survivors_ = detail::Survivors{size_};
    hosts_.assign(size_.value, {});
    number = ++job_number_;
  }
  auto job_command = command();
  host_file_ = std::move(job_command.host_file);
  try {
    job_ = std::make_shared<SupervisedJob>(
        SupervisedJob::Options{.command = std::move(job_command.words),
                               .size = size_,
                               .folder = folder,
                               .env = options_.env,
                               .fit = options_.fit,
                               .results = options_.results,
                               .survives_losses = survives_losses_},
        SupervisedJob::Events{
            .on_message = [this, number](Rank rank, WorkerMessage& message) { return take(number, rank, message); },
            .on_lost = [this, number](SupervisedJob::Lost lost) { return lose_rank(number, std::move(lost)); },
            .is_own = [this, number](Rank rank, WorkerMessage const& message) { return is_own(number, rank, message); },
            .on_stranger = [this](std::string text) { workers_.push(Warning{std::move(text)}); }});
  } catch (...) {
    std::scoped_lock const lock{mutex_};
    job_is_spent_ = true;
    throw;
  }
}

RAYTRAIN_INLINE void RankSupervisor::give_job_up() noexcept {
  if (job_ == nullptr) return;
  job_->give_up();
  end_beside([](SupervisedJob&) {});
}

RAYTRAIN_INLINE void RankSupervisor::dismiss_job() noexcept {
  Ended ended;
  ended.has_lost_ranks = !survivors().lost().empty();
  end_beside([ended](SupervisedJob& job) {
    job.tell(ended);
    job.end();
  });
}

template <class End>
void RankSupervisor::end_beside(End const& end) noexcept {
  std::erase_if(ending_,
                [](auto const& it) { return it.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
  auto spent = std::exchange(job_, nullptr);
  {
    std::scoped_lock const lock{mutex_};
    ++job_number_;
    job_is_spent_ = true;
  }
  try {
    ending_.push_back(std::async(std::launch::async, [spent = std::move(spent), end]() mutable {
      end(*spent);
      spent.reset();
    }));
  } catch (std::exception const&) {
    // no thread is left: it has ended here, in its time
  }
}

RAYTRAIN_INLINE void RankSupervisor::tell(ControllerMessage const& message) {
  if (job_ == nullptr) return;
  if (auto const* const ended = std::get_if<Ended>(&message); ended != nullptr && !survivors().lost().empty()) {
    auto without_lost = *ended;
    without_lost.has_lost_ranks = true;
    return job_->tell(without_lost);
  }
  job_->tell(message);
  auto const* const stop = std::get_if<Stop>(&message);
  if (stop == nullptr || stop->abort || stop->goes_on) return;
  {
    std::scoped_lock const lock{mutex_};
    is_signalled_ = stop->by_signal;
  }
  if (job_->is_complete()) return;
  // Those that have not come to `fit()` yet are not waited for, nor those that wait for them.
  give_job_up();
  for (std::uint32_t rank = 0; rank < size_.value; ++rank) push_finished_for(Rank{rank});
}

RAYTRAIN_INLINE void RankSupervisor::leave_workers_behind(std::vector<Rank> const&, std::string const&) noexcept {
  {
    std::scoped_lock const lock{mutex_};
    host_may_be_lost_ = true;
  }
  give_job_up();
}

RAYTRAIN_INLINE void RankSupervisor::join() noexcept {
  Supervisor::join();  // first, so that nobody is told what hosts are said to be then
  host_check_.cancel();
}

RAYTRAIN_INLINE void RankSupervisor::end() noexcept {
  if (job_ != nullptr) job_->end();
  give_job_up();
  ending_.clear();
}

RAYTRAIN_INLINE auto RankSupervisor::is_own(std::uint64_t job, Rank rank_of_job, WorkerMessage const& message) -> bool {
  std::scoped_lock const lock{mutex_};
  auto const attempt = attempt_of(message);
  return job != job_number_ || attempt != workers_.attempt() ||
         sender_of(message) == survivors_.worker_of(rank_of_job, attempt);
}

RAYTRAIN_INLINE auto RankSupervisor::take(std::uint64_t job, Rank rank_of_job, WorkerMessage& message) -> bool {
  auto spends = false;
  std::unique_lock lock{mutex_};
  if (job != job_number_) return true;
  auto const rank = survivors_.worker_of(rank_of_job, attempt_of(message));
  if (auto const* const started = std::get_if<Started>(&message)) hosts_[rank_of_job.value] = started->hostname;
  if (auto const* const failed = std::get_if<Failed>(&message)) {
    // One that has not begun to train may have left the others in the middle of what they begin together.
    spends = failed->process_is_spent || !workers_.has_started(rank);
  } else if (auto const* const finished = std::get_if<Finished>(&message)) {
    spends = finished->process_is_spent;
  } else if (auto* const preempted = std::get_if<Preempted>(&message)) {
    preempted->attempt = workers_.attempt();
    preempted->rank = survivors_.worker_of(rank_of_job, preempted->attempt);
    preempted_.push_back(rank_of_job);
    host_may_be_lost_ = true;
  }
  if (spends) job_is_spent_ = true;
  lock.unlock();
  return workers_.hand_on(rank, message);
}

RAYTRAIN_INLINE auto RankSupervisor::can_go_on() const -> bool {
  if (!survives_losses_ || job_is_spent_ || survivors_.left() < range_.fewest) return false;
  for (std::uint32_t rank = 0; rank < survivors_.workers().value; ++rank) {
    // The others may be in the middle of what they begin together.
    if (!workers_.has_started(Rank{rank})) return false;
  }
  return true;
}

RAYTRAIN_INLINE auto RankSupervisor::lose_rank(std::uint64_t job, SupervisedJob::Lost lost) -> bool {
  Loss loss;
  auto others_go_on = false;
  {
    std::scoped_lock const lock{mutex_};
    if (job != job_number_) return true;
    loss.attempt = workers_.attempt();
    loss.rank = survivors_.worker_of(lost.rank, loss.attempt);
    loss.host = hosts_[lost.rank.value];
    loss.has_ended = workers_.has_ended(loss.rank);
    loss.is_first = !std::exchange(loss_is_told_, true) && !job_is_spent_;
    loss.is_signalled = is_signalled_;
    loss.was_told = loss.has_ended ? failure_is_told_ : std::exchange(failure_is_told_, true);
    loss.is_preempted = ends_by_preemption_ =
        ends_by_preemption_ || std::ranges::find(preempted_, lost.rank) != preempted_.end();
    survivors_.lose_rank(lost.rank);
    others_go_on = lost.is_gone && can_go_on();  // MPI would wait for one that lives
    if (others_go_on) {
      replace_lost_at_ = std::chrono::steady_clock::now() + replace_lost_after;
      known_hosts_.clear();  // they are asked beside the training
    } else {
      job_is_spent_ = true;
      // Whether or not ranks elsewhere have ended first, when MPI told them of this one.
      host_may_be_lost_ = true;
    }
  }
  loss.text = std::move(lost.why);
  loss.pid = lost.pid;
  tell_of(std::move(loss));
  return others_go_on;
}

RAYTRAIN_INLINE void RankSupervisor::tell_of(Loss loss) {
  auto const who = "rank " + std::to_string(loss.rank.value);
  if (loss.has_ended) {
    if (loss.is_first) workers_.push(Warning{loss.rank, who + ", which had no more to do: " + loss.text});
    return;
  }
  if (loss.was_told) return push_finished_for(loss.rank);
  if (loss.is_signalled) {
    // Who has asked for the stop may have told the whole job.
    workers_.push(Warning{loss.rank, who + ", which was told to stop: " + loss.text});
    return push_finished_for(loss.rank);
  }
  auto const process = loss.pid == 0 ? std::string{} : " or process " + std::to_string(loss.pid);
  ErrorInfo error{Errc::worker_failed,
                  {},
                  std::move(loss.text),
                  "what " + options_.scaling.job_command.front() + process + " has printed may say more"};
  if (loss.is_preempted) workers_.push(Preempted{loss.rank, loss.attempt});
  Failed failed{std::move(error).with_origin(loss.rank, std::move(loss.host))};
  failed.process_is_spent = true;
  failed.attempt = loss.attempt;
  workers_.push(std::move(failed));
}

RAYTRAIN_INLINE auto RankSupervisor::survivors() -> detail::Survivors {
  std::scoped_lock const lock{mutex_};
  return survivors_;
}

RAYTRAIN_INLINE auto RankSupervisor::left_out() -> std::vector<std::string> {
  std::scoped_lock const lock{mutex_};
  return left_out_;
}

RAYTRAIN_INLINE void RankSupervisor::leave_out(detail::JobHosts const& asked, std::vector<std::string> silent) {
  std::scoped_lock const lock{mutex_};
  for (auto& other : detail::without(left_out_, asked.names())) silent.push_back(std::move(other));
  left_out_ = std::move(silent);
  asked_again_ = std::chrono::steady_clock::now();
}

RAYTRAIN_INLINE auto RankSupervisor::is_time_to_ask_again() -> bool {
  std::scoped_lock const lock{mutex_};
  return std::chrono::steady_clock::now() - asked_again_ > ask_left_out_after;
}

RAYTRAIN_INLINE void RankSupervisor::push_finished_for(Rank rank) {
  Finished finished{rank, true};
  finished.attempt = workers_.attempt();
  workers_.push(std::move(finished));
}

}  // namespace raytrain
