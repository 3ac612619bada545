// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// A seed that is unrelated to those of other `stream`s of the same run.
///
/// Source: the mixing function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
[[nodiscard]] constexpr auto stream_seed(std::uint64_t seed, std::uint64_t stream) noexcept -> std::uint64_t {
  auto mixed = seed + 0x9e3779b97f4a7c15 * (stream + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

/// State of the calling thread's default generator: LibTorch's, which all threads of a process share, or the one that
/// stands in for it.
[[nodiscard]] auto default_generator_state() -> at::Tensor;

void set_default_generator_state(at::Tensor const& state);

/// On a GPU that of the device, too.
void seed_default_generator(std::uint64_t seed, at::Device device = at::kCPU);

/// Of a worker's own generator, whose numbers are not those of the default one, which has `seed`.
[[nodiscard]] constexpr auto own_seed(std::uint64_t seed) noexcept -> std::uint64_t { return stream_seed(~seed, 0); }

/// The worker's own one, and the default one.
void seed_generators(std::uint64_t seed, at::Generator& own);

/// The state of one.
[[nodiscard]] auto generator_to_bytes(at::Generator const& generator) -> Bytes;

/// Errors: as `generators_from_bytes`; `attempted` begins the message.
void generator_from_bytes(BytesView bytes, at::Generator& generator, std::string_view attempted);

/// The states of a worker's own generator and of the default one, which are equally long.
[[nodiscard]] auto generators_to_bytes(at::Generator const& own) -> Bytes;

/// Errors: `backend` for bytes that `generators_to_bytes` of this LibTorch does not give.
void generators_from_bytes(BytesView bytes, at::Generator& own);

/// Locks LibTorch's default generator, which all threads of the process share, until it is destroyed.
///
/// Threads: the worker's, which may hold several.
class DefaultGeneratorLock {
 public:
  /// Lets other workers use the generator until `relock`, which restores its state.
  void unlock();
  void relock();

 private:
  static auto mutex() -> std::recursive_mutex&;

  std::unique_lock<std::recursive_mutex> lock_{mutex()};
  at::Tensor state_;
};

/// A worker's collective that unlocks the generator during each operation, as long as there is an `UnlockingScope`: the
/// other workers of the process must lock it themselves before they can join the operation.
class UnlockingCollective final : public WrappedCollective {
 public:
  /// `collective`: never null.
  explicit UnlockingCollective(std::unique_ptr<Collective> collective) noexcept
      : WrappedCollective{*collective}, collective_{std::move(collective)} {}

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override;

  [[nodiscard]] auto start(Task const& task) -> Pending override;

 private:
  friend class UnlockingScope;

  /// Unlocks what is held, until it ends.
  class Unlocked;

  std::unique_ptr<Collective> collective_;
  std::vector<DefaultGeneratorLock*> held_;  ///< Those of the scopes that there are, the innermost one last.
};

/// Makes `collective` unlock the generator during its operations, until the scope ends. Scopes may be nested.
class UnlockingScope {
 public:
  UnlockingScope(UnlockingCollective& collective, DefaultGeneratorLock& lock) : collective_{collective} {
    collective_.held_.push_back(&lock);
  }
  UnlockingScope(UnlockingScope const&) = delete;
  auto operator=(UnlockingScope const&) -> UnlockingScope& = delete;
  ~UnlockingScope() { collective_.held_.pop_back(); }

 private:
  UnlockingCollective& collective_;
};

/// The random numbers of each virtual shard of a worker: states of the worker's own generator and of LibTorch's default
/// one, which are put in place while the worker computes for the shard. Outside of a step's batches the generators go
/// on with numbers of the worker's own.
///
/// Threads: the worker's.
class ShardGenerators {
 public:
  /// `seed_of`: where a shard's numbers begin.
  ShardGenerators(at::Generator& own, std::function<std::uint64_t(std::uint32_t shard)> seed_of)
      : own_{own}, seed_of_{std::move(seed_of)} {}

  /// Keeps the state of the shard, or of the worker, that had the generators, and puts that of this one in place. None:
  /// the worker's. A padding batch gets any, and what it draws is forgotten.
  void put_in_place(std::optional<ShardTurn> turn);

  /// Whose state is in place; none: the worker's.
  [[nodiscard]] auto in_place() const noexcept -> std::optional<ShardTurn> const& { return in_place_; }

  /// The shard's state. Not while the generators are in its place.
  [[nodiscard]] auto state(std::uint32_t shard) -> Bytes const&;
  void set_state(std::uint32_t shard, BytesView state) { shards_[shard].assign(state.begin(), state.end()); }

 private:
  at::Generator& own_;
  std::function<std::uint64_t(std::uint32_t)> seed_of_;
  std::optional<ShardTurn> in_place_;
  Bytes worker_state_;
  std::map<std::uint32_t, Bytes> shards_;
};

/// Where a worker's random numbers come from: its own generator, what stands in for LibTorch's default one, and with
/// virtual shards the numbers of each of these; and their place in checkpoints.
///
/// Threads: the worker's, which makes and destroys it.
class WorkerGenerators {
 public:
  struct Worker {
    std::uint64_t seed = 0;  ///< The run's.
    Rank rank{};
    WorldSize world_size{};
    std::uint32_t virtual_shards = 0;
    bool shares_process = false;  ///< With other workers.
    std::optional<at::Device> gpu{};
  };

  explicit WorkerGenerators(Worker const& worker);
  WorkerGenerators(WorkerGenerators const&) = delete;
  auto operator=(WorkerGenerators const&) -> WorkerGenerators& = delete;

  [[nodiscard]] auto own() noexcept -> at::Generator& { return own_; }

  /// The same for tensors on the worker's device.
  [[nodiscard]] auto of_device() const -> at::Generator;

  /// As `ShardGenerators`, with virtual shards.
  void put_in_place(std::optional<ShardTurn> const& turn) { shards_->put_in_place(turn); }

  /// Adds all states, but for files that are there.
  void add_to(CheckpointDraft& draft);

  /// Goes on with the numbers of a checkpoint where as many workers, or shards, have saved them; else with others than
  /// before it.
  void restore(Checkpoint const& checkpoint);

 private:
  [[nodiscard]] auto worker_seed() const noexcept -> std::uint64_t;

  /// This worker's virtual shards.
  [[nodiscard]] auto own_shards() const -> std::vector<std::uint32_t>;
  void restore_shards(Checkpoint const& checkpoint);

  Worker worker_;
  at::Generator own_;
  std::optional<OwnDefaultGenerator> default_;  ///< Where several workers share the process.
  std::optional<ShardGenerators> shards_;       ///< With virtual shards.
  std::optional<std::uint64_t> iteration_;      ///< Of the checkpoint whose random numbers are not to come again.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/generators-inl.hpp>
#endif
