// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/reduction.hpp>

namespace raytrain {

/// How many workers train. Unset: on ranks as many as the job has, else 1. With two numbers, {2, 8}, the run is
/// elastic: while it trains, the number of its workers may change within them.
class WorkerCount {
 public:
  constexpr WorkerCount() = default;
  /// Any integer, so that a value out of range reaches `validate` and not a narrowing.
  template <std::integral I>
  constexpr WorkerCount(I count) : WorkerCount{count, count} {}  // NOLINT(google-explicit-constructor)
  template <std::integral I, std::integral J>
  constexpr WorkerCount(I fewest, J most)
      : fewest_{static_cast<std::int64_t>(fewest)}, most_{static_cast<std::int64_t>(most)} {}

  [[nodiscard]] constexpr auto is_set() const noexcept -> bool { return most_.has_value(); }
  [[nodiscard]] constexpr auto is_elastic() const noexcept -> bool { return fewest_ != most_; }
  [[nodiscard]] constexpr auto fewest_or(std::int64_t fallback) const noexcept -> std::int64_t {
    return fewest_.value_or(fallback);
  }
  [[nodiscard]] constexpr auto most_or(std::int64_t fallback) const noexcept -> std::int64_t {
    return most_.value_or(fallback);
  }

  /// "4", "2 to 8", "not set".
  [[nodiscard]] auto text() const -> std::string;

 private:
  std::optional<std::int64_t> fewest_;
  std::optional<std::int64_t> most_;
};

/// How many workers a run may have.
struct WorkerRange {
  WorldSize fewest{1};
  WorldSize most{1};    ///< The same where the run is not elastic.
  WorldSize wanted{1};  ///< Until somebody asks for another number.

  [[nodiscard]] constexpr auto is_elastic() const noexcept -> bool { return fewest < most; }
};

/// Where workers run.
enum class Launch : std::uint8_t {
  automatic,  ///< `ranks` in a job of several processes, else the backend's default.
  threads,    ///< Threads of this process.
  ranks,      ///< The ranks of the MPI job that this process is part of; needs <raytrain/launch/ranks.hpp>.
  /// Processes of this host, each this program started again, in the folder and with the environment that it has when
  /// `fit()` is called, and with `RunConfig::env`. What they run is said at `is_worker_process`.
  ///
  /// Whatever one of them has started is killed when it is killed, crashes or exits before the run has ended, also what
  /// has left its process group. After the end of the run it may go on, and so may at any time what was started
  /// without the variable `RAYTRAIN_STARTED_BY`. If this process itself is killed, they end, and what they have started
  /// does not.
  processes,
  /// This process becomes the supervisor of an MPI job: it starts itself again as the ranks of one, by
  /// `ScalingConfig::job_command`, and starts another job when a process of that one is lost. Needs
  /// <raytrain/launch/ranks.hpp>; what the ranks run is said at `is_worker_process`. When a job is ended for a lost
  /// rank, so is on this host what its ranks have started, as with `processes`.
  mpirun,
};

/// Over which hosts `Launch::mpirun` places its ranks.
enum class PlacementStrategy : std::uint8_t {
  automatic,  ///< As mpirun or srun does unless it is told.
  pack,       ///< On as few hosts as have room for them, ranks that follow each other on one.
  spread,     ///< On all hosts in turn: rank 0 on the first, rank 1 on the second.
};

/// So much of what has that name.
struct NamedResource {
  std::string name;
  double amount = 1;
};

/// What one worker may use.
struct Resources {
  int cpus = 0;  ///< Threads the framework may use in a worker; 0: an equal share of this process's cores, at least 1.
  /// GPUs of its own, 1 or more whole ones, or a part of one that it shares with other workers: 0.5, 0.25. With
  /// `ScalingConfig::use_gpu`, where 0 is 1.
  double gpus = 0;
  /// What hosts have only so much of, by names of one's own: {{"license", 1}, {"sensor", 0.5}}. With `Launch::mpirun`,
  /// where lines of the host file say what there is, as "alpha slots=4 license=2"; none where they do not. A host gets
  /// no more workers than it has enough for.
  std::vector<NamedResource> custom{};
};

struct Collectives;
struct WaitLimits;

/// Makes the collectives of workers that are threads, anew for each attempt.
using MakeCollectives = std::function<Collectives(WorldSize, WaitLimits)>;

/// How many workers, where, and with what.
struct ScalingConfig {
  static constexpr std::int64_t max_workers = 4096;  ///< Thread workers of one process.

  /// {fewest, most}: an elastic run. It begins with as many workers as this process's cores have room for, with
  /// `resources_per_worker` each, or with `Launch::mpirun` as the hosts that `job_command` names have slots for. Their
  /// number follows `Trainer::resize`; a SIGUSR1 to this process makes it one more, a SIGUSR2 one fewer, where
  /// `RunConfig::handle_signals` is set; with `Launch::mpirun` it also follows the hosts that are left, come back, or
  /// are written into the host file. Then all workers end as at a stop, at their next report or by
  /// `TrainContext::hand_over`, and as many as are wanted go on from that checkpoint. On ranks the job's size must be
  /// within them, and stays.
  WorkerCount num_workers{};
  Launch launch = Launch::automatic;
  Resources resources_per_worker{};
  /// Workers train on GPUs: `TorchContext::device()`, `BoostingContext::gpu()`. Each gets those that are its own by its
  /// number among the workers of its host, of those that CUDA_VISIBLE_DEVICES leaves to see. A booster of XGBoost or
  /// LightGBM trains on one. On threads their ready-made training has one booster, with what all workers ask for: more
  /// than one GPU for it is refused. MpiBackend refuses it.
  bool use_gpu = false;
  /// A part of the name that the GPUs must have, as "H100"; empty: any.
  std::string accelerator_type{};
  /// Above 0: a training has the same bits with any number of workers up to this one, also where it changes. An epoch
  /// is cut into so many shards instead of one for each worker. A worker takes the batches of its shards one after the
  /// other, and `Batch::ends_step` says when a step is complete and parameters are to be changed. What workers send is
  /// combined in the order of the shards, between hosts by `Reduction::rank_order`. Where `resources_per_worker` says
  /// nothing, a worker has the cores that a shard would have if each were a worker, since sums by more threads have
  /// other bits. TorchBackend and MpiBackend; others refuse it.
  int virtual_shards = 0;
  Reduction reduction = Reduction::automatic;  ///< Between hosts; on one host values are combined in rank order.
  /// A collective of your own for workers that are threads, as `[](WorldSize size, WaitLimits limits) -> Collectives`:
  /// the group of a world of `size` workers, and what makes each one's collective, on its own thread. What the former
  /// throws ends `fit()`; what the latter throws is that worker's failure. Empty: `local_collectives`, raytrain's own.
  /// Other workers have the collectives of their launch.
  MakeCollectives collectives{};
  bool pin_cpus = false;  ///< Binds worker r to cores r * cpus ... of this process's cores, wrapping around.

  /// What starts a job for `Launch::mpirun`, before `-n N` and this program with its arguments: {"mpirun",
  /// "--hostfile", "hosts.txt"},
  /// {"srun", "--mpi=pmix"}. A program without a slash is looked for in PATH. Hosts see the run's folder and the
  /// program under the same names. Those of `--hostfile FILE` or `--host LIST`, each as two words, that do not answer
  /// after a rank was lost are left out of the next job, so that spare slots let the run go on. With `--with-ft ulfm`
  /// of Open MPI 5, and a range of workers, the ranks that are left go on when one is lost. With another `launch`
  /// it must keep its default.
  std::vector<std::string> job_command = {"mpirun"};

  /// Over which hosts `Launch::mpirun` places the ranks, of those that `job_command` names or that the allocation of
  /// Slurm's has; `automatic`: as mpirun or srun does by itself. It needs Open MPI's mpirun, or srun inside an
  /// allocation: other programs take options of their own in `job_command`. `spread` is refused on threads and in
  /// processes, both are on `Launch::ranks`.
  PlacementStrategy placement_strategy = PlacementStrategy::automatic;

  /// With `Launch::processes` and `Launch::mpirun`: how long workers may take until they train, from each start of
  /// them, with what `main` does before `fit()` and a wait in the queue of srun. Then those that have not come have
  /// failed. 0: any time.
  std::chrono::milliseconds start_timeout = std::chrono::minutes{30};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;

  /// The most workers.
  [[nodiscard]] auto world_size() const noexcept -> WorldSize;

  /// For backends that train on the CPU. Errors: `invalid_config` where `use_gpu` is set.
  void refuse_gpus(std::string_view backend) const;

  /// Errors: `invalid_config` for more workers than virtual shards, where there are such.
  void check_virtual_shards(WorldSize workers) const;

  /// `reduction`, or the only one with which `virtual_shards` keep their order.
  [[nodiscard]] auto reduction_between_hosts() const noexcept -> Reduction {
    return virtual_shards > 0 ? Reduction::rank_order : reduction;
  }

 private:
  void validate_gpus() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/scaling_config-inl.hpp>
#endif
