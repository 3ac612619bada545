// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/backend/torch/detail/batch_thread.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

/// What `TorchBatchRange::map` makes something of each batch with.
template <class F, class Batch>
concept BatchFunction = std::copy_constructible<F> &&
    (std::invocable<F&, Batch const&> || std::invocable<F&, Batch const&, at::Generator&>);

namespace detail {

template <class Batch, BatchFunction<Batch> F>
[[nodiscard]] auto call_on_batch(F& function, Batch const& batch, at::Generator& generator) {
  if constexpr (std::invocable<F&, Batch const&>) {
    return function(batch);
  } else {
    return function(batch, generator);
  }
}

}  // namespace detail

/// What a function makes of the batches of a `TorchBatchRange`, in their order: an input range, which a loop goes
/// through once at a time. Made by `TorchBatchRange::map`.
///
/// Threads: one at a time; it must stay where it is while a loop goes through it.
/// Cancel:  a loop that is left, by an exception too, waits for the calls that are running, and no others begin.
template <class Range, BatchFunction<typename Range::Batch> F>
class MappedBatches {
  struct Loop;

 public:
  using Result = decltype(detail::call_on_batch(std::declval<F&>(), std::declval<typename Range::Batch const&>(),
                                                std::declval<at::Generator&>()));
  static_assert(std::move_constructible<Result>,
                "raytrain: what map() calls must return something that can be moved, for the loop to take");

  class Iterator {
   public:
    using value_type = Result;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(MappedBatches const& range) : loop_{std::make_unique<Loop>(range)} {}

    /// Waits for the result, with which the loop has been handed the batch.
    [[nodiscard]] auto operator*() const -> Result&& {
      if (!loop_->result) loop_->take();
      return std::move(*loop_->result);
    }
    auto operator++() -> Iterator& {
      if (!loop_->result) loop_->take();
      loop_->result.reset();
      ++loop_->at;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend auto operator==(Iterator const& it, std::default_sentinel_t) -> bool {
      return it.loop_->at == std::default_sentinel;
    }

   private:
    std::unique_ptr<Loop> loop_;
  };

  /// Errors: `invalid_config` for options out of range.
  MappedBatches(Range batches, F function, PrefetchOptions const& options)
      : batches_{std::move(batches)}, function_{std::move(function)}, options_{options} {
    options_.validate();
  }

  /// As of the batches.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return batches_.size(); }
  [[nodiscard]] auto empty() const noexcept -> bool { return batches_.empty(); }

  /// Starts the threads.
  ///
  /// Errors: `std::system_error` when the system has no threads.
  [[nodiscard]] auto begin() const -> Iterator { return Iterator{*this}; }
  [[nodiscard]] auto end() const noexcept -> std::default_sentinel_t { return {}; }

 private:
  struct Made {
    Result result;
    Batch rows;  ///< Of which it was made.
  };

  struct Loop {
    explicit Loop(MappedBatches const& mapped) : range{mapped}, at{mapped.batches_.begin()} {
      if (range.options_.threads == 0) {
        own.emplace(range.function_);
        return;
      }
      detail::OwnDefaultGenerator::prepare();
      prefetch.emplace(range.size(), range.options_, [&mapped](auto const& run) {
        detail::BatchThread const thread;
        auto function = mapped.function_;
        run([&](std::size_t number) { return mapped.make(function, number); });
      });
    }

    void take() {
      auto made = next();
      result.emplace(std::move(made.result));
      ++index;
      at.hand_out(made.rows);
    }

    auto next() -> Made {
      detail::InPhase const makes_data{range.batches_.timer(), detail::StepTimer::Phase::data};
      return prefetch ? prefetch->take() : range.make(*own, index);
    }

    MappedBatches const& range;
    typename Range::Iterator at;
    std::size_t index = 0;  // of the next result
    std::optional<Result> result{};
    std::optional<F> own{};  // in the loop's thread
    std::optional<OrderedPrefetch<Made>> prefetch{};
  };

  auto make(F& function, std::size_t index) const -> Made {
    detail::BatchScope scope{batches_.seed(index)};
    auto rows = batches_[index].rows();
    // Without the timer: all of this is data, whatever the function does behind its columns.
    typename Range::Batch const batch{rows};
    return {detail::call_on_batch(function, batch, scope.generator()), std::move(rows)};
  }

  Range batches_;
  F function_;
  PrefetchOptions options_;
};

}  // namespace raytrain
