// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/collective/collective.hpp>

namespace raytrain {

namespace detail {
class ModelExchange;
}  // namespace detail

/// Gradients that are exchanged together: those of parameters that follow each other in the model, in one flat array.
struct GradientBucket {
  /// A parameter, and its gradient: a part of `values`, in the parameter's shape.
  struct Part {
    std::string name;  ///< As `named_parameters()` has it.
    at::Tensor parameter;
    at::Tensor gradient;
    bool is_used = false;  ///< By any worker, in this backward; the gradients of others are zeros.
  };

  std::size_t index = 0;  ///< Of the model's `count`, from 0: of the same parameters in each backward.
  std::size_t count = 0;
  /// This worker's gradients: {n}, contiguous, in the parameters' type (float, double, Half or BFloat16), on the
  /// model's device, whose arrays the collective of `exchange` takes. n counts the gaps between parameters, too. A
  /// parameter without a gradient has zeros, and so have the gaps.
  at::Tensor values;
  std::vector<Part> parts;
};

/// Exchanges gradients between workers in a way of its own: with fewer bytes, with noise, or with some workers first.
/// What DDP calls a communication hook; `ModelOptions::exchange` takes one, and `compressed` makes some.
///
///     class Average : public raytrain::GradientExchange {
///       void exchange(raytrain::GradientBucket const& bucket, raytrain::Collective& collective) override {
///         std::span values{bucket.values.data_ptr<float>(), static_cast<std::size_t>(bucket.values.numel())};
///         collective.all_reduce(values, raytrain::ReduceOp::average);
///       }
///     };
///
/// What it keeps from one call to the next is this worker's own, and goes on in another attempt as a part of the
/// `TrainingState`: as a value where it differs between workers, or else by being `Checkpointed`.
///
/// Threads: the worker's, during its backward. One object for each model of each worker.
/// Source:  DistributedDataParallel.register_comm_hook of PyTorch.
class GradientExchange {
 public:
  GradientExchange(GradientExchange const&) = delete;
  auto operator=(GradientExchange const&) -> GradientExchange& = delete;
  virtual ~GradientExchange() = default;

  /// Replaces `bucket.values`, in their place, by what every worker is to have: the average of all workers' values,
  /// unless `averages()` is false. With `accumulate` it is called once for each window, with this worker's sum. Bits
  /// that differ between workers let their parameters drift apart, of which there is a warning.
  ///
  /// Every worker makes the same calls of `collective`, which knows the number of workers. It is called for each bucket
  /// of a backward that averages, with `Overlap::off` in their order; in a world of one, too.
  /// Errors: what it throws, the backward throws.
  virtual void exchange(GradientBucket const& bucket, Collective& collective) = 0;

  /// Whether `exchange` may be called during backwards (`ModelOptions::overlap`): on another thread, one call at a
  /// time, for buckets in an order that is the same on every worker and another one from the second backward on, of
  /// which every part `is_used`, since nobody knows yet whether it is. With `Overlap::measured` times decide whether it
  /// runs during backwards: its results should not depend on that, so that every run has the same bits.
  [[nodiscard]] virtual auto allows_overlap() const -> bool { return false; }

  /// Whether `exchange` gives the average of all workers' values. Where some workers have no batch
  /// (`TorchContext::join`) these have zeros, and the others' gradients are enlarged, so that the average is that of
  /// workers with a batch; unless this is false.
  [[nodiscard]] virtual auto averages() const -> bool { return true; }

  /// What must be equal on all workers, for a person: the kind, and its settings. The name of the class, unless this is
  /// overridden.
  [[nodiscard]] virtual auto description() const -> std::string;

 protected:
  GradientExchange() = default;

 private:
  friend class detail::ModelExchange;

  std::atomic<bool> is_in_use_ = false;
};

/// In what gradients travel between workers.
enum class Compression : std::uint8_t {
  none,
  bf16,  ///< The range of float, and 8 significant bits.
  fp16,  ///< 11 significant bits, up to 65504: a larger gradient becomes infinite, one below 3e-8 becomes 0.
};

[[nodiscard]] auto to_string(Compression compression) noexcept -> std::string_view;

/// "none", "bf16" or "fp16", as of a command line.
///
/// Errors: `invalid_config` for another text, listing these.
[[nodiscard]] auto compression_named(std::string_view name) -> Compression;

/// For `ModelOptions::exchange`: gradients travel in 16 bits, half the bytes of float. Null for `Compression::none`.
///
///     auto const exchange = raytrain::compressed(raytrain::Compression::bf16);
///     auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = exchange});
///
/// Each worker's gradients are rounded to 16 bits, averaged in float in rank order, and the average is rounded once
/// more, so that every worker has the same bits, whatever the launch. A value that is not finite on one worker stays so
/// on all, and a `GradScaler` leaves the step out; with `fp16` take one, since values above its range become infinite.
///
/// Cost:   sums of float cross the network once for each host, those of 16 bits once for each worker: it pays on a slow
///         network between hosts of one worker each, and not within a host.
/// Source: bf16_compress_hook and fp16_compress_hook of PyTorch.
[[nodiscard]] auto compressed(Compression compression) -> std::shared_ptr<GradientExchange>;

/// For `ModelOptions::exchange`: workers' gradients are combined by `adasum`, parameter by parameter, in the place of
/// their mean. For large batches: the sum where gradients of workers have nothing in common, the mean where they are
/// the same, so that a learning rate for one worker stays right for many.
///
///     auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = raytrain::adaptive_sum()});
///
/// With `accumulate`, what each worker has accumulated is its gradient. In a world of one it changes nothing, and a
/// worker that has no batch left (`TorchContext::join`) adds nothing.
///
/// Cost:   that of `adasum`, for each parameter: about 3 times the bytes of a mean, and more messages.
/// Source: S. Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021; Horovod's `op=Adasum`.
[[nodiscard]] auto adaptive_sum() -> std::shared_ptr<GradientExchange>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/gradient_exchange-inl.hpp>
#endif
