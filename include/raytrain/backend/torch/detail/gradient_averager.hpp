// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/backward_exchange.hpp>
#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/overlap_choice.hpp>
#include <raytrain/backend/torch/detail/shard_step.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// Averages a model's gradients over all ranks when a backward through it ends. Then it sends rank 0's buffers (running
/// statistics and the like) to all ranks, but for those that no rank has changed. A buffer of less than 64 KiB in CPU
/// memory has changed when its bytes have; any other one when LibTorch has counted a change of it, or of another buffer
/// of its submodule. Without `ModelOptions::broadcast_buffers` it sends none.
///
/// Gradients accumulate as in one process: averages are the same on every rank, and so are their sums. The results of
/// `torch::autograd::grad` are not averaged.
///
/// Each averaging names its model and its number, and how far this rank is in the data (the epoch modulo 65536). The
/// collective compares these between ranks.
///
/// A digest of the parameters is averaged too. Rank 0 warns once when the ranks' digests differ. That is no error,
/// since processors of different kinds may round differently.
///
/// Backwards in a window of several batches exchange nothing before the last batch: the array holds their sum, of which
/// the program sees nothing before it is averaged. Gradients that there were before the window are added then.
///
/// Gradients are averages over the ranks that have a batch, and buffers the lowest such rank's, where the program has
/// told `RanksWithBatch` so.
///
/// With a `GradientExchange` gradients are averaged by it, in buckets, and nothing else.
///
/// With `Overlap::on`, and where an `OverlapChoice` says so, a `BackwardExchange` averages the gradients during the
/// backward. The arena's counts are averaged when it has ended; by them ranks notice that they are out of step.
///
/// With virtual shards all of that is done once for the backwards of a step: see `ShardStep`.
///
/// Threads: the worker's, which is also the one that runs the backward.
/// Errors:  `backward()` throws what the collective throws: `rank_mismatch` on every rank when ranks are out of step,
///          and `backend` for `create_graph` and as `check_unchanged`; `invalid_call` when parameters change within a
///          window, and on a rank without a batch.
class GradientAverager {
 public:
  /// The worker that trains the model.
  struct Worker {
    Collective& collective;
    DeviceArrays* device_arrays = nullptr;  ///< Of the worker's device; null on the CPU.
    std::shared_ptr<WorkerStep const> worker_step;
    std::shared_ptr<StepTimer> timer{};  ///< May be null.
    std::function<void(std::string)> warn;
    std::function<void()> before_backward{};   ///< With virtual shards; else empty.
    ModelExchange exchange{};                  ///< Without virtual shards.
    std::function<void(std::string)> print{};  ///< Of what was measured; may be empty.
    bool has_spare_core = false;               ///< For a thread of its own.
    bool spans_hosts = false;                  ///< Whether the run's workers are on several.

    [[nodiscard]] auto array_collective() const noexcept -> Collective& {
      return device_arrays == nullptr ? collective : *device_arrays;
    }
    [[nodiscard]] auto device() const noexcept -> at::Device {
      return device_arrays == nullptr ? at::kCPU : device_arrays->device();
    }
  };

  /// `model_number`: from 1. A group operation with `Overlap::on`.
  GradientAverager(torch::nn::Module const& module, std::uint16_t model_number, Worker worker);

  GradientAverager(GradientAverager const&) = delete;
  auto operator=(GradientAverager const&) -> GradientAverager& = delete;
  ~GradientAverager();

  [[nodiscard]] auto is_of(torch::nn::Module const& module) const -> bool { return module_.lock().get() == &module; }

  /// Whether every backward overlaps, as the program asked by `Overlap::on`; what is measured does not count.
  [[nodiscard]] auto overlaps() const noexcept -> bool { return backward_exchange_ && !choice_; }

  /// Settles `Overlap::measured`: exchanges come after backwards from now on. Does nothing without a choice.
  void keep_behind();

  /// Where a backward leaves the parameter's averaged gradient; null if it averages none for it.
  [[nodiscard]] auto gradient_place(at::Tensor const& parameter) const -> std::shared_ptr<void> {
    return arena_.place_of(parameter);
  }

  [[nodiscard]] auto model_number() const noexcept -> std::uint16_t { return model_number_; }

  /// Those whose gradients it averages, by their names.
  [[nodiscard]] auto parameters() const -> std::vector<std::pair<std::string, at::Tensor>>;

  /// Before the program sees the batch of this turn, with virtual shards.
  void begin_turn(ShardTurn turn) { shard_step_->begin_turn(turn); }
  /// After the last batch of an epoch.
  void end_turns() { shard_step_->end_turns(); }

  /// Before a backward of any model, with virtual shards. Errors: as `ShardStep::check_parameters`.
  void check_parameters() const { shard_step_->check_parameters(parameter_digest()); }
  [[nodiscard]] auto is_within_step() const -> bool { return shard_step_ && shard_step_->is_within_step(); }

  /// The backward of a rank without a batch, which adds nothing to what the others' backwards average.
  void shadow_backward();

  /// Whether it has gradients of a window that are not averaged yet.
  [[nodiscard]] auto holds_sum() const noexcept -> bool { return window_sum_.is_open; }

  /// As of `OverlapChoice`; none without one.
  [[nodiscard]] auto measured_share() const -> std::optional<double> {
    return choice_ ? std::optional{choice_->share()} : std::nullopt;
  }

  /// Whether nobody else has the model, nor a parameter of it.
  [[nodiscard]] auto is_unused() const -> bool;

  /// Errors: `backend`, naming a parameter that was unfrozen or registered since: it would not be averaged.
  void check_unchanged() const;

  /// Errors: `backend`, naming a buffer that was registered since: each rank would keep its own.
  void check_has_all_buffers() const;

 private:
  /// Held by the engine until the backward has ended, or has failed before its end.
  struct BackwardUnderWay {
    bool& flag;
    ~BackwardUnderWay() { flag = false; }
  };

  struct Buffer {
    std::string submodule;
    at::Tensor tensor;
    std::uint64_t version = 0;
    void const* memory = nullptr;
    std::vector<std::byte> contents{};  ///< Of one that is compared.

    /// For `has_other_contents` and `has_changed`.
    void remember_state();
    /// Whether to look at its bytes costs less than to send them.
    [[nodiscard]] auto is_compared() const -> bool;
    [[nodiscard]] auto has_other_contents() const -> bool;
    /// As LibTorch counts changes. One that was replaced has other memory.
    [[nodiscard]] auto has_changed() const -> bool;
  };

  static auto version_of(at::Tensor const& tensor) -> std::uint64_t;

  static auto buffers_of(torch::nn::Module const& module) -> std::vector<Buffer>;

  /// Batch normalisation changes its statistics without LibTorch's counting it, and then counts batches.
  [[nodiscard]] auto is_to_send(Buffer const& buffer) const -> bool;

  /// Bytes, whose sum over all ranks is exact in float.
  static constexpr std::size_t digest_size = 3;
  using Digest = std::array<std::uint8_t, digest_size>;

  /// Changes with the first element of any parameter; on a device with each change that LibTorch counts, since to look
  /// at it would be to wait.
  [[nodiscard]] auto parameter_digest() const -> std::uint64_t;

  /// What was summed up in a window of several batches.
  struct WindowSum {
    std::uint64_t window = 0;      ///< Its number.
    std::uint64_t parameters = 0;  ///< Digest, in its first backward.
    double samples = 1;            ///< Of a batch that would count in the sum as it is.
    bool is_open = false;          ///< Not averaged yet.
  };

  void begin_backward();

  /// By which this rank's gradients are multiplied before they are averaged.
  [[nodiscard]] auto gradient_scale() const -> double;

  void on_gradient(std::size_t index, at::Tensor const& gradient);

  /// False when the backward under way is torch::autograd::grad, which hands a gradient over and leaves `grad()` alone.
  static auto is_accumulated(at::Tensor const& parameter) -> bool;

  void on_backward_end();

  /// Of the exchange of the backward under way, or the next one; null where it comes behind the backward.
  [[nodiscard]] auto beside_backward() -> BackwardExchange* {
    return backward_exchange_ && (!choice_ || choice_->overlaps()) ? &*backward_exchange_ : nullptr;
  }

  /// Averages the gradients and the counts. False within a step of virtual shards.
  auto average() -> bool;
  void exchange_gradients();

  /// Does what `choice_` has just decided: makes `backward_exchange_`, which is a group operation, or ends it.
  void follow_choice();
  void begin_overlap();

  [[nodiscard]] auto tag_of_backward(std::uint32_t number) const -> CallTag;

  void warn_of_drift(Digest const& own);

  /// Those that `is_sent` says, by their number; the same on every rank.
  void share_buffers(std::function<bool(std::size_t)> const& is_sent);

  /// Whether each is to be sent, as any rank says.
  [[nodiscard]] auto agree_on_buffers() -> std::vector<std::uint8_t>;

  std::weak_ptr<torch::nn::Module const> module_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<Collective> overlap_collective_;  ///< Of `backward_exchange_`'s thread; null without it.
  GradientArena arena_;
  TaggedCollective cpu_collective_;  ///< For counts, and for buffers in CPU memory.
  /// For gradients and buffers on the worker's device; the worker's collective where there is no device.
  TaggedCollective array_collective_;
  std::uint16_t model_number_;
  std::shared_ptr<WorkerStep const> worker_step_;
  std::shared_ptr<StepTimer> timer_;
  std::function<void(std::string)> warn_;
  std::function<void()> before_backward_;
  std::function<void(std::string)> print_;
  ModelExchange model_exchange_;
  std::optional<BackwardExchange> backward_exchange_;  ///< Where exchanges are beside backwards, or tried there.
  std::optional<OverlapChoice> choice_;                ///< Where that is to be measured.
  bool spans_hosts_ = false;
  std::uint32_t averaged_backwards_ = 0;
  bool has_warned_of_drift_ = false;
  std::optional<ShardStep> shard_step_;  ///< With virtual shards.
  WindowSum window_sum_;
  std::vector<unsigned> hook_ids_;  ///< Of the parameters, as LibTorch numbers them.
  /// Of parameters on a device, when they were made the same on all ranks.
  std::vector<std::uint64_t> first_parameter_versions_;
  bool backward_is_under_way_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/gradient_averager-inl.hpp>
#endif
