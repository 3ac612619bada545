// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>

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

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/generators-inl.hpp>
#endif
