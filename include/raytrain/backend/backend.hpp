// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// The framework that trains: what a worker's context offers, and what is set up around the training function.
///
/// What the compiler cannot check, every model promises:
///  - `on_start` runs once per `fit()` on the caller's thread, before any worker; it may throw to refuse the run;
///  - `make_context` runs on each worker's own thread, at the same time as on the others;
///  - `on_shutdown` runs after every worker has ended, also when `on_start` or a worker failed; not where workers that
///    do not return end the process.
template <class B>
concept Backend =
    /// The user's settings of this backend, an aggregate.
    std::is_aggregate_v<typename B::Config> && std::default_initializable<typename B::Config> &&
    /// What the training function receives; `report`, `checkpoint` and the rest come from the base.
    std::derived_from<typename B::Context, TrainContext> &&
    /// Made anew for every `fit()` from the settings.
    std::constructible_from<B, typename B::Config const&> &&
    requires(B& backend, ScalingConfig const& scaling, WorkerSetup setup) {
  /// Part of a run's identity: it must not change between versions of a program.
  { B::name } -> std::convertible_to<std::string_view>;

  /// What `Launch::automatic` means; never `automatic` itself.
  { B::default_launch } -> std::convertible_to<Launch>;

  { backend.on_start(scaling) } -> std::same_as<void>;

  /// Returned as a prvalue: a context is neither copied nor moved.
  { backend.make_context(std::move(setup)) } -> std::same_as<typename B::Context>;

  /// Nobody could handle an exception here.
  { backend.on_shutdown() }
  noexcept->std::same_as<void>;
};

/// A backend that calls the training function itself, to make what a library throws in it readable.
///
/// What the compiler cannot check: `call` calls the function once, on each worker's own thread, at the same time as on
/// the others, and throws when it does.
template <class B>
concept CallingBackend = Backend<B> && requires(B& backend, std::function<void()> const& training) {
  /// With any function that takes nothing.
  { backend.call(training) } -> std::same_as<void>;
};

/// A backend with a ready-made training: `Trainer<B>{typename B::Params{...}, {...}}` needs no function.
///
/// What the compiler cannot check:
///  - `validate` runs in the trainer's constructor, and throws for what can be told to be wrong before a run;
///  - `train` is a training function as a user would write one, with the backend's context.
template <class B>
concept ReadyMadeBackend = Backend<B> &&
    /// The trainer keeps a copy, which all of its runs share.
    std::copy_constructible<typename B::Params> &&
    requires(typename B::Context& context, typename B::Params const& params, typename B::Config const& config) {
  { params.validate() } -> std::same_as<void>;

  /// Called as a static function: on each worker's thread, where the backend itself belongs to all of them.
  { B::train(context, params) } -> std::same_as<void>;

  /// Whether on threads one worker is to train, with the cores of all that `ScalingConfig` asks for. On ranks, and of
  /// a user's own training function, nobody asks.
  { B::trains_in_one_worker(config) } -> std::same_as<bool>;
};

}  // namespace raytrain
