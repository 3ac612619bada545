// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/data/batch.hpp>
#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

/// A function for `map` of a range of batches: `f(batch)`, or `f(batch, random)` with random numbers from a `Random`.
template <class F, class Batch, class Random>
concept BatchFunction = std::copy_constructible<F> &&
    (std::invocable<F&, Batch const&> || std::invocable<F&, Batch const&, Random>);

namespace detail {

template <class Random, class Batch, BatchFunction<Batch, Random> F>
[[nodiscard]] auto call_on_batch(F& function, Batch const& batch, Random random) {
  if constexpr (std::invocable<F&, Batch const&>) {
    return function(batch);
  } else {
    return function(batch, random);
  }
}

/// How `BatchRange::map` calls a function; the ranges of backends have other ways.
struct PlainMapping {
  /// Lives in each thread while it calls the function.
  struct Thread {};

  /// Before there are threads.
  static void prepare() noexcept {}

  /// Lives while the loop waits for a result, or makes it.
  template <class Range>
  [[nodiscard]] static auto wait(Range const& /*range*/) noexcept -> Thread {
    return {};
  }

  template <class Range>
  [[nodiscard]] static auto rows(Range const& range, std::size_t index) -> Batch {
    return range[index];
  }

  template <class Range, class F>
  [[nodiscard]] static auto call(F& function, Range const& range, Batch const& rows, std::size_t index) {
    return call_on_batch<std::uint64_t>(function, rows, range.seed(index));
  }
};

}  // namespace detail

/// What a function makes of the batches of a range, in their order: an input range, which a loop goes through once at a
/// time. Made by `BatchRange::map` or `TorchBatchRange::map`.
///
/// Threads: one at a time; it must stay where it is while a loop goes through it.
/// Cancel:  a loop that is left, by an exception too, waits for the calls that are running, and no others begin.
template <class Range, class F>
class MappedBatches {
  using Mapping = typename Range::Mapping;
  struct Loop;

 public:
  using Result = decltype(Mapping::call(std::declval<F&>(), std::declval<Range const&>(), std::declval<Batch const&>(),
                                        std::size_t{}));
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
      Mapping::prepare();
      prefetch.emplace(range.size(), range.options_, [&mapped](auto const& run) {
        [[maybe_unused]] typename Mapping::Thread const thread{};
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
      [[maybe_unused]] auto const waits = Mapping::wait(range.batches_);
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
    auto rows = Mapping::rows(batches_, index);
    return {Mapping::call(function, batches_, rows, index), std::move(rows)};
  }

  Range batches_;
  F function_;
  PrefetchOptions options_;
};

}  // namespace raytrain
