// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

enum class Operation : std::uint8_t {
  barrier,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  all_gatherv,
  duplicate,
};

/// Whose call it is.
enum class CallOf : std::uint8_t {
  program,      ///< The caller's own code: all else of the tag is 0.
  preparation,  ///< A model is prepared, or with `part` an optimizer of it.
  backward,     ///< Of a model.
  layer,        ///< Of a model's layer that exchanges, as SyncBatchNorm: one of its forwards.
  step,         ///< Of an optimizer.
  loader,       ///< A data loader is made.
  join,         ///< Ranks say which of them have a batch.
};

/// The identity of a call that a library makes, not the caller's code: ranks compare it, so that those which are out of
/// step get an error although their arrays fit. Numbers that grow beyond their type begin anew.
struct CallTag {
  CallOf of = CallOf::program;
  std::uint16_t model = 0;    ///< From 1, in the order in which the worker has prepared its models; 0: of none.
  std::uint16_t part = 0;     ///< Of the model, from 1: an optimizer in the order of preparing them, or a layer; or 0.
  std::uint16_t epoch = 0;    ///< The epoch that the ranks' data has reached, as this rank knows it; 0 before any.
  std::uint32_t number = 0;   ///< Which backward, forward, step, loader or `join` it is, from 1; 0 for others.
  std::uint32_t samples = 0;  ///< Taken of that epoch; of a step: a hash of its learning rates and of which parameters
                              ///< have a gradient.
  friend auto operator==(CallTag const&, CallTag const&) -> bool = default;
};

/// What must be equal on every rank of an operation. Fields that the operation has no use for keep their defaults.
struct Call {
  Operation operation = Operation::barrier;
  ElementType element{};
  ReduceOp op{};
  Rank root{};
  std::uint64_t count = 0;  ///< Elements of the array that is as long on every rank: for all_gather, what a rank sends.
  std::uint64_t counts_digest = 0;  ///< For all_gatherv: `digest_of` the counts by rank.
  CallTag tag{};
  friend auto operator==(Call const&, Call const&) -> bool = default;
};

[[nodiscard]] constexpr auto mix(std::uint64_t digest, std::uint64_t number) noexcept -> std::uint64_t {
  digest = (digest ^ number) * 0x9E37'79B9'7F4A'7C15U;
  return digest ^ digest >> 32U;
}

/// A 64-bit hash: equal for other counts only by chance.
[[nodiscard]] constexpr auto digest_of(std::span<std::size_t const> counts) noexcept -> std::uint64_t {
  std::uint64_t digest = 0;
  for (auto const count : counts) digest = mix(digest, count);
  return digest;
}

/// A 64-bit hash: equal for another call only by chance. 0 stands for no call.
[[nodiscard]] constexpr auto digest_of(Call const& call) noexcept -> std::uint64_t {
  auto const kind = std::uint64_t{1} << 56U | static_cast<std::uint64_t>(call.operation) << 48U |
                    static_cast<std::uint64_t>(call.element) << 40U | static_cast<std::uint64_t>(call.op) << 32U |
                    call.root.value;
  auto const& tag = call.tag;
  auto const number = std::uint64_t{tag.model} << 48U | std::uint64_t{tag.epoch} << 32U | tag.number;
  auto const samples = static_cast<std::uint64_t>(tag.of) << 48U | std::uint64_t{tag.part} << 32U | tag.samples;
  return mix(mix(mix(mix(mix(0, kind), call.count), call.counts_digest), number), samples);
}

/// " for backward 3 of model 1 (after 96 samples of epoch 0)", " to make data loader 2", " for join() 4"; empty for a
/// call of the caller's own.
[[nodiscard]] auto to_string(CallTag const& tag) -> std::string;

[[nodiscard]] auto operation_text(Call const& call) -> std::string;

/// "all_reduce(1000 x float32, sum)", "broadcast(10 x int32, root 1) to prepare model 2", "barrier()".
[[nodiscard]] auto to_string(Call const& call) -> std::string;

/// One rank's part in an operation: its arguments have been checked, the other ranks' have not. What the elements of
/// its arrays are, only `call` knows, so that what performs it is compiled once for all types.
struct Task {
  Call call;
  std::span<std::byte const> from{};      ///< What this rank gives; empty where it gives nothing.
  std::span<std::byte> to{};              ///< What it gets; the same memory as `from` where it is in place. Or empty.
  Reducers const* reducers = nullptr;     ///< Where arrays are combined.
  std::span<std::size_t const> counts{};  ///< For all_gatherv: elements that each rank gives.
  Call const* of = nullptr;               ///< The caller's call of which this is a part; null: the whole of its own.

  /// What ranks compare, and errors name.
  [[nodiscard]] auto compared() const noexcept -> Call const& { return of == nullptr ? call : *of; }
};

/// An operation that has been started. Its arrays are the operation's until `wait` has returned.
///
/// Threads: the one that has started it.
class Pending {
 public:
  /// What goes on meanwhile.
  class Work {
   public:
    Work() = default;
    Work(Work const&) = delete;
    auto operator=(Work const&) -> Work& = delete;
    virtual ~Work() = default;

    /// Returns when this rank may use its arrays again. Called once.
    ///
    /// Errors: the operation's.
    virtual void wait() = 0;
  };

  /// An operation that is over.
  Pending() = default;
  explicit Pending(std::unique_ptr<Work> work) noexcept : work_{std::move(work)} {}
  Pending(Pending&&) noexcept = default;
  auto operator=(Pending&& other) noexcept -> Pending& {
    std::swap(work_, other.work_);
    return *this;
  }
  /// Waits. An error is lost here, but the collective's next operation throws it as well.
  ~Pending() {
    if (work_ == nullptr) return;
    try {
      wait();
    } catch (...) {
      return;
    }
  }

  /// Whether nothing is left to wait for, as far as it is known without a look.
  [[nodiscard]] auto is_over() const noexcept -> bool { return work_ == nullptr; }

  /// Errors: the operation's.
  void wait() {
    if (auto const work = std::move(work_)) work->wait();
  }

 private:
  std::unique_ptr<Work> work_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/task-inl.hpp>
#endif
