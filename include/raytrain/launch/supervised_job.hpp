// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/child_process.hpp>
#include <raytrain/launch/detail/process_mark.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// An MPI job that this process has started, in which this program runs as each rank, and the connections to its ranks.
/// It ends with this object, which is made anew for another job.
///
/// Threads: everything from one, unless it says otherwise.
class SupervisedJob {
 public:
  struct Options {
    std::vector<std::string> command;  ///< As `ScalingConfig::job_command`.
    WorldSize size{1};
    std::filesystem::path folder;              ///< Which all hosts see.
    std::map<std::string, std::string> env{};  ///< As `RunConfig::env`.
    std::uint32_t fit = 1;                     ///< As in `detail::RankStart`.
    int results = -1;                          ///< As in `detail::WorkerStart`.
    bool survives_losses = false;              ///< The job, by its launcher's leave, as `detail::mpi_survives_losses`.
  };

  /// A rank that does not come, or that comes and ends before `end`.
  struct Lost {
    Rank rank;
    ::pid_t pid;      ///< Of its process, where that is known; else 0.
    std::string why;  ///< It begins with "its process".
    bool is_gone;     ///< The process has ended, or is killed.
  };

  /// From threads of this object's; they must neither wait nor throw.
  struct Events {
    /// As `ControlServer::Events::on_message`.
    std::function<bool(Rank, WorkerMessage&)> on_message;
    /// Once for each. While ranks have not come, the launcher of the job may end the others for their sake. So who is
    /// lost meanwhile is told when all have come, or when the launcher has ended, and the missing ones first. Where the
    /// job survives losses it is told at once. False: the others cannot go on either, and are ended.
    std::function<bool(Lost)> on_lost;
    /// As `ControlServer::Events::is_own`.
    std::function<bool(Rank, WorkerMessage const&)> is_own;
    std::function<void(std::string)> on_stranger;
  };

  /// Errors: `worker_failed` when the system does not start the command; `io`; as `ControlServer`.
  SupervisedJob(Options options, Events events);
  SupervisedJob(SupervisedJob const&) = delete;
  auto operator=(SupervisedJob const&) -> SupervisedJob& = delete;
  /// Kills what is left of the job.
  ~SupervisedJob();

  [[nodiscard]] auto size() const noexcept -> WorldSize { return options_.size; }

  /// As `ControlServer::tell_all`.
  void tell(ControllerMessage const& message) { server_.tell_all(message); }

  /// Ends the connections in order, and waits for the ranks to end by themselves; at most ten seconds.
  void end() noexcept;

  /// Nothing of it counts any more: no event comes, and its ranks on this host are killed. Its other processes end by
  /// themselves, and then this object can: mostly after two seconds, at most after seven.
  void give_up() noexcept;

  /// Whether each rank has come to `fit()`. From any thread.
  [[nodiscard]] auto is_complete() -> bool;

 private:
  /// What is known of a rank's process.
  struct Process {
    FileDescriptor handle;  ///< Of a process of this host, which it names whatever becomes of its number.
    ::pid_t pid = 0;
    bool has_connected = false;
    bool is_suspended = false;
    bool is_gone = false;  ///< The launcher of the job has seen it end, or will.
    std::string lost;      ///< Why it is; empty before.
    bool is_told = false;  ///< That it is lost.
  };

  /// What the ranks read before they connect.
  struct StartFile {
    StartFile() = default;
    StartFile(StartFile const&) = delete;
    auto operator=(StartFile const&) -> StartFile& = delete;
    ~StartFile() { remove(); }

    void remove() noexcept;

    [[nodiscard]] auto results() const -> std::filesystem::path { return path.string() + ".results"; }
    [[nodiscard]] auto env() const -> std::filesystem::path { return path.string() + ".env"; }

    std::filesystem::path path{};
  };

  void write_start();
  [[nodiscard]] auto command() const -> std::vector<std::string>;
  void kill() noexcept;
  void end_processes() noexcept;

  /// Until all ranks have come, or the job is over: of one that ends before that, the launcher of a job that survives
  /// losses tells nobody, and the others would wait for it in MPI_Init. On this host.
  void watch_start(std::stop_token const& is_over);

  // From other threads:
  void connected(Rank rank, ::pid_t pid);
  [[nodiscard]] auto is_suspended(Rank rank) -> bool;
  void disconnected(Rank rank, ControlServer::LostConnection const& connection);
  void exited(detail::ProcessExit const& exit);
  [[nodiscard]] auto all_have_come() const -> bool;
  /// Those that nobody was told of, the ones that never came first.
  [[nodiscard]] auto take_lost() -> std::vector<Lost>;
  void tell(std::vector<Lost> const& lost);

  Options options_;
  Events events_;
  detail::ProcessMark mark_ = detail::ProcessMark::create();  ///< Of the ranks and what they start.
  StartFile start_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Process> processes_;  ///< By rank.
  bool has_exited_ = false;         ///< The command.
  bool is_over_ = false;            ///< Nobody is told anything any more.
  bool is_killed_ = false;
  bool has_ended_in_order_ = false;
  ControlServer server_;
  std::optional<detail::ChildProcess> command_;
  std::jthread start_watch_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/supervised_job-inl.hpp>
#endif
