// SPDX-License-Identifier: Apache-2.0
/// Including this header beside `main` gives a program `Launch::ranks`: under mpirun or srun, the workers of a training
/// are the ranks of the MPI job. It may have a source file of its own, since it takes long to compile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/error_info.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/rank_session.hpp>
#include <raytrain/launch/detail/singleton.hpp>
#include <raytrain/launch/detail/worker_thread.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/rank_communicator.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/launch/worker.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// The ranks of an MPI communicator as workers. MPI carries their arrays; what they and the controller tell each other
/// goes through sockets.
class MpiRankJob final : public RankJob {
 public:
  /// Errors: as `OpenRankJob`.
  MpiRankJob(detail::RankSession& session, MPI_Comm communicator, JobRequest const& request)
      : job_{session},
        group_{std::make_shared<MpiGroup>(
            communicator,
            MpiOptions{.reduction = request.scaling.reduction,
                       .limits = {.timeout = request.collective_timeout,
                                  .on_warning = [to = warnings_](std::string const& text) { to->tell(text); }}})},
        collective_{std::make_unique<MpiCollective>(group_)} {
    open(request);
  }
  ~MpiRankJob() override {
    end_worker();
    end();
  }

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return group_->size(); }
  [[nodiscard]] auto rank() const noexcept -> Rank override { return group_->rank(); }
  [[nodiscard]] auto placement() const noexcept -> Placement const& override { return placement_; }

  void launch(WorkerLaunch what) override {
    auto const sink = std::make_shared<MessageSink const>(std::move(what.sink));
    warnings_->send_to(what.limits.on_warning);
    link_.emplace(placement_, [this, sink](WorkerMessage message) {
      add_calls(message);
      if (auto const left = judge_return(message)) tell_left(*left);
      sink->send(std::move(message));
    });
    {
      std::lock_guard const lock{mutex_};
      sink_ = sink;
      for (auto& message : std::exchange(kept_, {})) sink->push(std::move(message));
    }
    // The others must not begin without the worker of this process, for which they would wait.
    start_worker(std::move(what.main), *link_);
    tell_others(std::move(what.begin));
  }

  void tell(ControllerMessage const& message) override {
    if (link_) link_->deliver(message);
    tell_others(message);
  }

  void tell_patiently(ControllerMessage const& message) override {
    if (server_) server_->tell_all_patiently(message);
  }

  void join() noexcept override {
    end_worker();
    warnings_->send_to(nullptr);
    std::lock_guard const lock{mutex_};
    joined_ = true;
    sink_ = nullptr;
  }

  void leave_behind(std::vector<Rank> const& workers, std::string const& last_word) noexcept override {
    LeftBehind const left{workers, last_word};
    tell_others(left);
    {
      std::lock_guard const lock{mutex_};
      note_left_behind(left);
    }
    join();
  }

  void follow(std::function<void(ControllerMessage)> on_message, std::function<void(std::string)> on_lost) override {
    std::lock_guard const lock{mutex_};
    for (auto& message : std::exchange(early_, {})) on_message(std::move(message));
    if (lost_text_) on_lost(*lost_text_);
    on_message_ = std::move(on_message);
    on_lost_ = std::move(on_lost);
  }

  auto send(WorkerMessage message) -> bool override {
    add_calls(message);
    return client_->send(message);
  }

  void launch_here(WorkerMain main, WorkerLink& link, std::function<void(std::string const&)> on_warning) override {
    warnings_->send_to(std::move(on_warning));
    start_worker(std::move(main), link);
  }

  void leave(Left const& left) noexcept override { group_->leave(left.rank, left.operations); }

  void end() noexcept override {
    if (server_) server_->close();
    if (client_) {
      if (!is_over())
        (void)client_->send(failure_of(rank(), {Errc::worker_failed, {}, "its process has left fit() too early"}));
      client_->close();
    }
    if (is_left_behind()) detail::end_process();
  }

 private:
  /// Where texts of the collective go; it is made before anybody takes them.
  class Warnings {
   public:
    void send_to(std::function<void(std::string const&)> to) {
      std::lock_guard const lock{mutex_};
      to_ = std::move(to);
    }
    void tell(std::string const& text) {
      auto const to = [this] {
        std::lock_guard const lock{mutex_};
        return to_;
      }();
      if (to) to(text);
    }

   private:
    std::mutex mutex_;
    std::function<void(std::string const&)> to_ = [](std::string const& text) {
      detail::say_last_word("raytrain: " + text + '\n');  // nobody is there yet to whom it could be told
    };
  };

  /// A process as the others name it.
  struct Process {
    std::string hostname;
    std::int64_t pid = 0;
    std::uint32_t first_here = 0;  ///< Lowest rank of its host.
    std::vector<int> cores;
    template <class A>
    void serialize(A& archive) {
      archive(hostname, pid, first_here, cores);
    }
  };

  /// What rank 0's server gives to those that are to connect to it.
  struct Listening {
    std::string token;
    std::vector<std::string> addresses;
    void serialize(auto& archive) { archive(token, addresses); }
  };

  void open(JobRequest const& request) {
    compare(request.settings);
    place(request.scaling);
    agree(size_problem(request.scaling), Errc::invalid_config, "ScalingConfig::num_workers");
    connect();
  }

  // One rank's problem is all ranks' error.
  void agree(std::string const& problem, Errc code, std::string const& attempted) {
    auto const problems = detail::all_gather_objects(*collective_, problem);
    for (std::uint32_t rank = 0; rank < problems.size(); ++rank) {
      if (problems[rank].empty()) continue;
      auto const where = processes_.empty() ? "" : " on " + processes_[rank].hostname;
      throw Error{code, attempted, "rank " + std::to_string(rank) + where + ": " + problems[rank]};
    }
  }

  void compare(std::vector<SharedSetting> const& settings) {
    auto const first = detail::broadcast_object(*collective_, settings, Rank{0});
    std::string problem;
    for (auto const& [name, value] : settings) {
      auto const there = std::ranges::find(first, name, &SharedSetting::name);
      if (!problem.empty() || (there != first.end() && there->value == value)) continue;
      problem = name + " is " + value + ", and on rank 0 it is " + (there == first.end() ? "missing" : there->value);
    }
    agree(problem, Errc::invalid_config, "comparing this run's settings on all ranks");
  }

  [[nodiscard]] auto size_problem(ScalingConfig const& scaling) const -> std::string {
    auto const wanted = scaling.num_workers.value_or(size().value);
    if (wanted == size().value) return {};
    return "is " + std::to_string(wanted) + ", and the job has " + std::to_string(size().value) +
           " ranks: leave it unset, or start as many";
  }

  void place(ScalingConfig const& scaling) {
    auto const host = this_host();
    auto const first_here = group_->first_rank_of_host().value;
    auto const mine = usable_cores();
    processes_ = detail::all_gather_objects(*collective_, Process{host.hostname, host.pid, first_here, mine});

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
      if (other < rank().value) ++local_rank;
      cores.insert(process.cores.begin(), process.cores.end());
      if (std::ranges::find_first_of(process.cores, mine) != process.cores.end()) ++sharers;
    }
    cores_.emplace(scaling, std::max(sharers, 1U));
    placement_ = {rank(),
                  size(),
                  Rank{local_rank},
                  WorldSize{local_size},
                  Rank{node},
                  cores_->cpus(),
                  static_cast<int>(cores.size())};
  }

  void connect() {
    std::string problem;
    Listening listening;
    if (rank() == Rank{0} && size() > WorldSize{1}) {
      try {
        listen();
        listening = {server_->token().to_hex(), server_->addresses()};
      } catch (std::exception const& error) {
        problem = error.what();
      }
    }
    agree(problem, Errc::io, "listening for the ranks of the job");
    listening = detail::broadcast_object(*collective_, listening, Rank{0});
    if (rank() != Rank{0}) {
      try {
        client_.emplace(ControlClient::Options{.addresses = std::move(listening.addresses),
                                               .token = RunToken::from_hex(listening.token),
                                               .rank = rank()},
                        ControlClient::Events{[this](ControllerMessage message) { take(std::move(message)); },
                                              [this](std::string why) { lose_controller(std::move(why)); }});
      } catch (std::exception const& error) {
        problem = error.what();
      }
    }
    agree(problem, Errc::io, "connecting to the controller on rank 0");
  }

  void listen() {
    ControlServer::Options options{.world = size(), .first_rank = Rank{1}};
    options.port = wanted_port();
    options.interface_address = control_address(placement_.local_world_size == size());
    options.unix_socket_too = placement_.local_world_size > WorldSize{1};
    server_.emplace(std::move(options),
                    ControlServer::Events{[this](Rank rank, WorkerMessage& message) { return hand_on(rank, message); },
                                          [this](Rank rank, std::string why) { lose(rank, why); },
                                          [this](std::string text) {
                                            push(Warning{Rank{0}, std::move(text)});
                                          }});
  }

  // Rank 0, on the server's thread ------------------------------------------------------------------------------------

  [[nodiscard]] auto hand_on(Rank rank, WorkerMessage& message) -> bool {
    auto const left = judge_return(message);
    auto const ends = std::holds_alternative<Finished>(message) || std::holds_alternative<Failed>(message);
    {
      std::lock_guard const lock{mutex_};
      if (joined_) return true;
      if (sink_ == nullptr || !sink_->try_send(message)) return false;
    }
    if (ends) ended_[rank.value] = true;
    if (left) tell_left(*left);
    return true;
  }

  void lose(Rank rank, std::string const& why) {
    job_.session().abandon();
    if (!ended_[rank.value]) push(loss(rank, why));
  }

  /// To the controller, without waiting for it, since the connections of all ranks wait meanwhile.
  void push(WorkerMessage message) {
    std::lock_guard const lock{mutex_};
    if (joined_) return;
    if (sink_ != nullptr) return sink_->push(std::move(message));
    kept_.push_back(std::move(message));
  }

  [[nodiscard]] auto loss(Rank rank, std::string const& why) const -> Failed {
    return failure_of(rank, {Errc::worker_failed,
                             {},
                             "process " + std::to_string(processes_[rank.value].pid) + " is lost: " + why,
                             "mpirun or srun and the log of its host may say more"});
  }

  // Both sides --------------------------------------------------------------------------------------------------------

  [[nodiscard]] auto failure_of(Rank rank, ErrorInfo error) const -> Failed {
    return Failed{std::move(error).with_place(rank, processes_[rank.value].hostname)};
  }

  /// On the worker's thread, which sends its last message itself.
  void add_calls(WorkerMessage& message) const {
    auto* const finished = std::get_if<Finished>(&message);
    if (finished == nullptr) return;
    auto const calls = group_->calls_made();
    finished->operations = calls.operations;
    finished->calls_digest = calls.digest;
  }

  /// Rank 0 compares the calls of each worker that has returned with those of the first one, since between hosts nobody
  /// has compared the last ones. If they differ, the message becomes a `Failed`; else this is what the others are told.
  [[nodiscard]] auto judge_return(WorkerMessage& message) -> std::optional<Left> {
    auto const* const returned = std::get_if<Finished>(&message);
    if (returned == nullptr || returned->stopped) return std::nullopt;
    auto const finished = *returned;
    std::lock_guard const lock{mutex_};
    if (!first_finished_) first_finished_ = finished;
    auto const& first = *first_finished_;
    if (first.operations == finished.operations && first.calls_digest == finished.calls_digest) {
      return Left{finished.rank, finished.operations};
    }
    auto const calls = [](Finished const& of) {
      return "rank " + std::to_string(of.rank.value) + " has called " + std::to_string(of.operations) +
             " collective operations";
    };
    message = failure_of(
        finished.rank, {Errc::rank_mismatch,
                        {},
                        calls(first) + " and " + calls(finished) + ", which are not the same ones",
                        "make every rank call the same operations in the same order, on arrays of one size and type"});
    return std::nullopt;
  }

  void tell_left(Left const& left) {
    leave(left);
    tell_others(left);
  }

  void tell_others(ControllerMessage const& message) {
    if (server_) server_->tell_all(message);
  }

  // The controller has said how the run ended, or is gone: nobody waits for this process.
  [[nodiscard]] auto is_over() -> bool {
    std::lock_guard const lock{mutex_};
    return told_end_ || lost_controller_;
  }

  // MPI could not end without their processes, nor a process without its worker.
  void note_left_behind(LeftBehind const& left) {
    job_.session().abandon();
    if (std::ranges::find(left.ranks, rank()) == left.ranks.end()) return;
    left_behind_ = true;
    detail::say_last_word(left.last_word);
  }

  void take(ControllerMessage message) {
    std::lock_guard const lock{mutex_};
    if (auto const* const left = std::get_if<LeftBehind>(&message)) return note_left_behind(*left);
    told_end_ = told_end_ || std::holds_alternative<Ended>(message);
    if (on_message_) return on_message_(std::move(message));
    early_.push_back(std::move(message));
  }

  void lose_controller(std::string why) {
    std::lock_guard const lock{mutex_};
    if (told_end_) return;
    lost_controller_ = true;
    job_.session().abandon();
    if (on_lost_) return on_lost_(std::move(why));
    lost_text_ = std::move(why);
  }

  void start_worker(WorkerMain main, WorkerLink& link) {
    try {
      worker_ = std::jthread{[this, main = std::move(main), &link] {
        cores_->take(placement_);
        main(Worker{link, group_, std::move(collective_)});
      }};
    } catch (std::system_error const& error) {
      throw Error{Errc::worker_failed, "starting the worker of rank " + std::to_string(rank().value),
                  std::string{"the system gave no thread ("} + error.what() + ")",
                  "raise the limit on processes (ulimit -u)"};
    }
  }

  void end_worker() noexcept {
    if (!is_left_behind() && worker_.joinable()) worker_.join();
  }

  [[nodiscard]] auto is_left_behind() noexcept -> bool {
    std::lock_guard const lock{mutex_};
    return left_behind_;
  }

  detail::RankSession::Job job_;  ///< Ends last.
  std::shared_ptr<Warnings> warnings_ = std::make_shared<Warnings>();
  std::shared_ptr<MpiGroup> group_;
  std::unique_ptr<Collective> collective_;
  std::vector<Process> processes_;
  std::optional<detail::WorkerCores> cores_;
  Placement placement_;
  std::mutex mutex_;
  std::shared_ptr<MessageSink const> sink_;
  bool joined_ = false;
  std::optional<Finished> first_finished_;
  std::vector<WorkerMessage> kept_;  ///< For the controller, which does not take messages yet.
  std::vector<char> ended_ = std::vector<char>(group_->size().value);  ///< The server's thread only.
  std::function<void(ControllerMessage)> on_message_;
  std::function<void(std::string)> on_lost_;
  std::vector<ControllerMessage> early_;
  std::optional<std::string> lost_text_;
  bool told_end_ = false;
  bool lost_controller_ = false;
  bool left_behind_ = false;  ///< This process's worker.
  std::optional<WorkerLink> link_;
  std::optional<ControlServer> server_;
  std::optional<ControlClient> client_;
  std::jthread worker_;
};

namespace detail {

// Open MPI would end the process where srun tells it nothing, unless the program has begun MPI in a way of its own.
inline void refuse_singleton() {
  auto const job = job_environment();
  if (!job || job->size == WorldSize{1}) return;
#ifdef OPEN_MPI
  int initialized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0 && job->launcher == srun_name && !mpi_is_told_of_job()) throw alone_in_mpi(*job);
#endif
  (void)rank_session();
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size == 1) throw alone_in_mpi(*job);
}

inline auto open_mpi_rank_job(JobRequest const& request) -> std::unique_ptr<RankJob> {
  refuse_singleton();
  auto& session = rank_session();
  if (session.is_abandoned()) {
    throw Error{Errc::invalid_call, "fit() on ranks",
                "a rank of this job was lost, or has not come, in an earlier fit(): no other one can begin",
                "let the program end, and start it again"};
  }
  try {
    return std::make_unique<MpiRankJob>(session, rank_communicator, request);
  } catch (Error const& error) {
    if (error.code() == Errc::timed_out) session.abandon();
    throw;
  }
}

/// What including this header does.
inline bool const ranks_are_known = (open_rank_job = &open_mpi_rank_job, true);

}  // namespace detail
}  // namespace raytrain
