// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/host_check.hpp>
#include <raytrain/launch/detail/job_hosts.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/detail/survivors.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/supervised_job.hpp>
#include <raytrain/launch/supervisor.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Workers are the ranks of an MPI job that this process starts; it is no rank of it. All attempts are of the same job
/// until a rank's process is lost: then the next `launch` starts another one, since MPI does not go on without it.
///
/// With `--with-ft ulfm` in `ScalingConfig::job_command`, and a range of workers, MPI does: the next `launch` uses the
/// processes that are left. 30 s later a change, which is no failure, brings back as many as before.
class RankSupervisor final : public Supervisor {
 public:
  /// Errors: as `placement_options`.
  explicit RankSupervisor(SupervisorOptions options);
  /// Kills what is left of the job.
  ~RankSupervisor() override;

  /// Asks the hosts that `ScalingConfig::job_command` names, when a process of the job before was lost. One that does
  /// not answer is left out, until there are too few slots without it, and it answers. Waits for hosts where they are
  /// too few, as long as `ScalingConfig::start_timeout` says.
  [[nodiscard]] auto leave_out_lost_hosts() -> std::vector<std::string> override;

  [[nodiscard]] auto watches_room() const noexcept -> bool override;

  /// Reads the host file again.
  [[nodiscard]] auto room() -> Room override;
  [[nodiscard]] auto look_for_room() -> Room override;

  void replace_lost() override;

  [[nodiscard]] auto keeps_process_of(Rank rank) -> bool override;
  void launch(WorkerLaunch what) override;
  void tell(ControllerMessage const& message) override;

  /// Gives the whole job up.
  void leave_workers_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept override;

  void join() noexcept override;
  void end() noexcept override;

 private:
  static constexpr std::chrono::seconds ask_again_after{2};      ///< Where they are too few.
  static constexpr std::chrono::seconds ask_left_out_after{30};  ///< Where they are enough.
  static constexpr std::chrono::seconds replace_lost_after{30};  ///< Ranks, where the others go on.

  /// Of a rank's process.
  struct Loss {
    Rank rank{};  ///< Of its worker.
    Attempt attempt{};
    std::string host{};
    std::string text{};
    ::pid_t pid = 0;
    bool has_ended = false;     ///< Its worker, before.
    bool is_first = false;      ///< Before any other one, and before anything else has spent the job.
    bool is_signalled = false;  ///< A signal has stopped the run.
    bool was_told = false;      ///< Another one is what the attempt has failed by.
    bool is_preempted = false;  ///< It, or the one by whose loss the job ends.
  };

  void start_job(std::string const& folder);
  void give_job_up() noexcept;

  /// Ends the job in order, beside what follows: all its workers have returned.
  void dismiss_job() noexcept;
  template <class End>
  void end_beside(End const& end) noexcept;

  /// The command that starts a job on the hosts that are left.
  [[nodiscard]] auto command() -> detail::JobCommand;

  /// Adds those of the candidates that answer.
  void take_back(detail::JobHosts const& hosts, std::vector<std::string>& good,
                 std::vector<std::string> const& candidates);

  [[noreturn]] void refuse_too_few(detail::JobHosts const& hosts, std::vector<std::string> const& left);
  [[nodiscard]] auto too_few(detail::JobHosts const& hosts, std::vector<std::string> const& left) const -> std::string;

  /// Whether these have the slots that the job needs. Where all of them together have not, any number is enough.
  [[nodiscard]] auto are_enough(detail::JobHosts const& hosts, std::vector<std::string> const& names) const -> bool;
  /// Whether all of them together have those slots, or do not say it.
  [[nodiscard]] auto have_room(detail::JobHosts const& hosts) const -> bool;

  [[nodiscard]] auto named_hosts() const -> detail::JobHosts;
  /// Errors: `invalid_config` where hosts have not what the workers need.
  void check_resources() const;
  /// As the command names them now, or as it has named them last: a file that is not there, says nothing, or has become
  /// too small for the fewest workers, changes nothing.
  [[nodiscard]] auto hosts() -> detail::JobHosts;
  /// Leaves those out that are named now and do not answer.
  void look_at_new_hosts();

  [[nodiscard]] auto left_out() -> std::vector<std::string>;
  /// Those of `asked` that were silent, and others that were left out beside that.
  void leave_out(detail::JobHosts const& asked, std::vector<std::string> silent);
  [[nodiscard]] auto is_time_to_ask_again() -> bool;

  [[nodiscard]] auto survivors() -> detail::Survivors;

  // From other threads:
  [[nodiscard]] auto is_own(std::uint64_t job, Rank rank_of_job, WorkerMessage const& message) -> bool;
  [[nodiscard]] auto take(std::uint64_t job, Rank rank_of_job, WorkerMessage& message) -> bool;
  /// Whether the others of the job can go on.
  [[nodiscard]] auto lose_rank(std::uint64_t job, SupervisedJob::Lost lost) -> bool;
  void tell_of(Loss loss);
  /// Only with the lock.
  [[nodiscard]] auto can_go_on() const -> bool;
  /// In the name of its worker, which ends by no fault of its own.
  void push_finished_for(Rank rank);

  std::mutex mutex_;
  bool is_signalled_ = false;     ///< A signal has stopped the run.
  std::uint64_t job_number_ = 0;  ///< What earlier ones have to say does not count.
  bool job_is_spent_ = false;     ///< No other attempt can run in it.
  bool const survives_losses_;    ///< As `SupervisedJob::Options`.
  detail::Survivors survivors_;   ///< Of the job.
  std::vector<Rank> preempted_;   ///< Of the job: while they are there, another job follows.
  std::chrono::steady_clock::time_point replace_lost_at_{};
  bool loss_is_told_ = false;          ///< Of this attempt.
  bool ends_by_preemption_ = false;    ///< The job, by the loss of a process that was to be taken away.
  bool failure_is_told_ = false;       ///< The ranks that are lost after the first one are lost by it.
  bool host_may_be_lost_ = false;      ///< Of those that the job before had.
  std::vector<std::string> hosts_;     ///< By rank of the job, as far as they are known.
  std::vector<std::string> left_out_;  ///< Hosts that the next job does without.
  std::chrono::steady_clock::time_point asked_again_{};
  std::vector<std::string> job_hosts_;  ///< That the job was started on, as far as the command names them.
  std::optional<detail::JobHosts> hosts_seen_;
  std::vector<std::string> known_hosts_;  ///< Those, and others that have answered since.
  Room room_;                             ///< As it was last seen.
  detail::HostCheck host_check_;
  FileDescriptor host_file_;  ///< Of the job.
  std::shared_ptr<SupervisedJob> job_;
  std::vector<std::future<void>> ending_;  ///< Of the jobs before, while this one runs.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_supervisor-inl.hpp>
#endif
