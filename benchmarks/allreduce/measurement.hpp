// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/detail/combine.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>

#include "options.hpp"

/// One line of the table. Times are in us; an iteration takes as long as its slowest rank.
struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  double min_us = 0;
  double avg_us = 0;
  double max_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algorithm_bandwidth = 0;  ///< GB/s: bytes / p50.
  double bus_bandwidth = 0;        ///< GB/s, as nccl-tests defines it: what a link of each rank carries.
  double model_us = 0;             ///< What the traffic model gives; see `moved_share`.
  std::uint64_t wrong = 0;         ///< Elements, on all ranks, in the last iteration.
};

/// How many times the bytes of one rank's array cross a rank's link in an ideal algorithm.
/// Source: nccl-tests, PERFORMANCE.md.
inline auto bus_factor(std::string const& collective, std::uint32_t ranks) -> double {
  double const n = ranks;
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (collective == "barrier") return 0;
  return collective == "broadcast" ? 1 : (n - 1) / n;
}

/// The traffic model of ranks that share memory: how many bytes each of them has to read and to write, for each byte of
/// the whole array; the mean of the two, as of a copy. No rank can do with less, nor with less than one wait before it
/// may read the others' arrays and one before it may change its own again. So the model's time is that of two barriers
/// and of a copy of so many bytes by all ranks at once, measured beside the collective.
///
/// all_reduce: 1 read (of each of n arrays the part that is this rank's to reduce, 1/n), 1 written (the same part of
/// each); broadcast: 1, 1; all_gather: 1, 1; reduce_scatter: 1, 1/n; a barrier moves nothing, and is one wait.
inline auto moved_share(std::string const& collective, std::uint32_t ranks) -> double {
  if (collective == "barrier") return 0;
  return collective == "reduce_scatter" ? (1 + 1.0 / ranks) / 2 : 1;
}

/// Of zeros: where the collective would have them, or in memory of the caller's, in large pages in both cases.
template <class T, class C>
auto allocate(C& collective, Options const& options, std::size_t size) -> raytrain::Buffer<T> {
  if constexpr (requires { collective.template allocate<T>(size); }) {
    if (options.memory == "allocated") return collective.template allocate<T>(size);
  }
  return {raytrain::detail::allocate_pages(size * sizeof(T)), size};
}

/// One collective on arrays of `T`: fills the input, runs, and counts what is wrong in the result.
///
/// `bytes` is the size of the whole array: of what every rank has for all_reduce and broadcast, of the gathered one
/// for all_gather, of the one to be scattered for reduce_scatter. Every value is a small integer, exact in every type.
template <class C, class T>
class Operation {
 public:
  Operation(C& collective, Options const& options, std::size_t bytes)
      : collective_{collective}, options_{options}, ranks_{collective.size().value}, rank_{collective.rank().value} {
    part_ = bytes / sizeof(T);
    if (split()) part_ = (part_ + ranks_ - 1) / ranks_;
    whole_ = allocate<T>(collective, options, split() ? part_ * ranks_ : part_);
    if (split()) mine_ = allocate<T>(collective, options, part_);
  }

  [[nodiscard]] auto bytes() const noexcept -> std::span<std::byte> { return std::as_writable_bytes(whole_.span()); }
  [[nodiscard]] auto count() const noexcept -> std::size_t { return whole_.size(); }

  /// Every iteration begins with other bytes than the one before left, as in a training.
  void fill() noexcept {
    if (options_.collective == "all_gather") {
      for (std::size_t i = 0; i < part_; ++i) mine_[i] = value(rank_, rank_ * part_ + i);
    } else {
      for (std::size_t i = 0; i < whole_.size(); ++i) whole_[i] = value(rank_, i);
    }
  }

  void run() {
    auto const whole = whole_.span();
    if (options_.collective == "barrier") {
      collective_.barrier();
    } else if (options_.collective == "all_reduce") {
      collective_.all_reduce(whole, op());
    } else if (options_.collective == "broadcast") {
      collective_.broadcast(whole, raytrain::Rank{0});
    } else if (options_.collective == "all_gather") {
      collective_.all_gather(std::span<T const>{mine_.span()}, whole);
    } else {
      collective_.reduce_scatter(std::span<T const>{whole}, mine_.span(), op());
    }
  }

  [[nodiscard]] auto wrong() const -> std::uint64_t {
    std::uint64_t wrong = 0;
    auto const count_wrong = [&](raytrain::Buffer<T> const& values, std::size_t begin) {
      for (std::size_t i = 0; i < values.size(); ++i) wrong += bits_differ(values[i], expected(begin + i)) ? 1 : 0;
    };
    if (options_.collective == "reduce_scatter") {
      count_wrong(mine_, rank_ * part_);
    } else {
      count_wrong(whole_, 0);
    }
    return wrong;
  }

 private:
  [[nodiscard]] auto split() const -> bool {
    return options_.collective == "all_gather" || options_.collective == "reduce_scatter";
  }

  [[nodiscard]] auto op() const -> raytrain::ReduceOp {
    using enum raytrain::ReduceOp;
    for (auto const op : {sum, average, min, max, product}) {
      if (to_string(op) == options_.op) return op;
    }
    throw std::invalid_argument{"--op " + options_.op};
  }

  [[nodiscard]] static auto value(std::size_t rank, std::size_t index) noexcept -> T {
    return as_element((index + rank) % 3);
  }
  /// Of 16 bits, only a `float` becomes one.
  template <class Value>
  [[nodiscard]] static auto as_element(Value value) noexcept -> T {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<T>(value);
    } else {
      return T{static_cast<float>(value)};
    }
  }
  [[nodiscard]] static auto bits_differ(T a, T b) noexcept -> bool { return std::memcmp(&a, &b, sizeof a) != 0; }

  [[nodiscard]] auto expected(std::size_t index) const -> T {
    if (options_.collective == "broadcast") return value(0, index);
    if (options_.collective == "all_gather") return value(index / part_, index);
    std::array<std::uint64_t, 3> ranks_with{};  // ... each of the three values
    for (std::size_t rank = 0; rank < ranks_; ++rank) ++ranks_with[(index + rank) % 3];
    auto const sum = ranks_with[1] + 2 * ranks_with[2];
    switch (op()) {
      case raytrain::ReduceOp::sum: return as_element(sum);
      case raytrain::ReduceOp::min: return as_element(ranks_with[0] > 0 ? 0 : ranks_with[1] > 0 ? 1 : 2);
      case raytrain::ReduceOp::max: return as_element(ranks_with[2] > 0 ? 2 : ranks_with[1] > 0 ? 1 : 0);
      case raytrain::ReduceOp::product:
        return as_element(ranks_with[0] > 0 ? 0.0 : std::exp2(static_cast<double>(ranks_with[2])));
      case raytrain::ReduceOp::average: break;
    }
    auto const combined = static_cast<raytrain::detail::Combined<T>>(sum);
    return as_element(
        raytrain::detail::conclude<raytrain::ReduceOp::average>(combined, static_cast<std::uint32_t>(ranks_)));
  }

  C& collective_;
  Options const& options_;
  std::size_t ranks_;
  std::size_t rank_;
  std::size_t part_ = 0;
  raytrain::Buffer<T> whole_;
  raytrain::Buffer<T> mine_;
};

/// The middle of `times_s`, in us, where each time is that of the slowest rank.
template <class C>
auto median_us(C& collective, std::vector<double> times_s) -> double {
  collective.all_reduce(std::span<double>{times_s}, raytrain::ReduceOp::max);
  std::ranges::sort(times_s);
  return 1e6 * times_s[times_s.size() / 2];
}

/// What the traffic model says of so many bytes; the same on every rank.
template <class C>
auto model_us(C& collective, Options const& options, std::span<std::byte> whole) -> double {
  using Clock = std::chrono::steady_clock;
  auto const share = moved_share(options.collective, collective.size().value);
  auto const moved_bytes = static_cast<std::size_t>(static_cast<double>(whole.size()) * share);
  auto const copy = raytrain::detail::allocate_pages(whole.size());
  auto const median_of = [&](int times, auto const& work) {
    std::vector<double> times_s(static_cast<std::size_t>(times));
    for (auto& time_s : times_s) {
      collective.barrier();
      auto const start = Clock::now();
      work();
      time_s = std::chrono::duration<double>{Clock::now() - start}.count();
    }
    return median_us(collective, std::move(times_s));
  };
  auto const waits_us = median_of(101, [&] { collective.barrier(); }) * (options.collective == "barrier" ? 1 : 2);
  if (moved_bytes == 0) return waits_us;
  return waits_us + median_of(11, [&] { std::memcpy(copy.get(), whole.data(), moved_bytes); });
}

/// Measures one size on every rank of `collective`; all get the same row.
template <class T, class C>
auto measure(C& collective, Options const& options, std::size_t bytes) -> Row {
  using Clock = std::chrono::steady_clock;
  Operation<C, T> operation{collective, options, bytes};
  auto const seconds_of_one = [&] {
    operation.fill();
    collective.barrier();
    auto const start = Clock::now();
    operation.run();
    return std::chrono::duration<double>{Clock::now() - start}.count();
  };

  double probe_s = 0;
  for (int i = 0; i < options.warm_up; ++i) probe_s = seconds_of_one();
  // Rank 0 decides, since all must do as many.
  std::array<double, 1> wanted{options.iterations > 0
                                   ? options.iterations
                                   : std::clamp(options.seconds / std::max(probe_s, 1e-6), 10.0, 5000.0)};
  collective.broadcast(std::span<double>{wanted}, raytrain::Rank{0});
  std::vector<double> times_s(static_cast<std::size_t>(wanted[0]));
  for (auto& time_s : times_s) time_s = seconds_of_one();
  std::array<std::uint64_t, 1> wrong{options.check ? operation.wrong() : 0};

  collective.all_reduce(std::span<double>{times_s}, raytrain::ReduceOp::max);
  collective.all_reduce(std::span<std::uint64_t>{wrong}, raytrain::ReduceOp::sum);
  std::sort(times_s.begin(), times_s.end());
  auto const percentile_us = [&](double share) {
    return 1e6 * times_s[static_cast<std::size_t>(share * static_cast<double>(times_s.size() - 1))];
  };
  Row row;
  row.bytes = operation.count() * sizeof(T);
  row.count = operation.count();
  row.min_us = percentile_us(0);
  row.max_us = percentile_us(1);
  row.p50_us = percentile_us(0.5);
  row.p99_us = percentile_us(0.99);
  for (double const time_s : times_s) row.avg_us += 1e6 * time_s / static_cast<double>(times_s.size());
  row.algorithm_bandwidth = static_cast<double>(row.bytes) / row.p50_us / 1e3;
  row.bus_bandwidth = row.algorithm_bandwidth * bus_factor(options.collective, collective.size().value);
  row.wrong = wrong[0];
  row.model_us = model_us(collective, options, operation.bytes());
  return row;
}

/// `measure` for the type that the options name.
template <class C>
auto measure_type(C& collective, Options const& options, std::size_t bytes) -> Row {
  using raytrain::ElementType;
  auto const is = [&](ElementType type) { return to_string(type) == options.type; };
  if (is(ElementType::float32)) return measure<float>(collective, options, bytes);
  if (is(ElementType::float64)) return measure<double>(collective, options, bytes);
  if (is(ElementType::int8)) return measure<std::int8_t>(collective, options, bytes);
  if (is(ElementType::int32)) return measure<std::int32_t>(collective, options, bytes);
  if (is(ElementType::int64)) return measure<std::int64_t>(collective, options, bytes);
  if (is(ElementType::uint8)) return measure<std::uint8_t>(collective, options, bytes);
  if constexpr (requires(std::span<raytrain::Float16> halves) {
                  collective.all_reduce(halves, raytrain::ReduceOp::sum);
                }) {
    if (is(ElementType::float16)) return measure<raytrain::Float16>(collective, options, bytes);
    if (is(ElementType::bfloat16)) return measure<raytrain::BFloat16>(collective, options, bytes);
  }
  throw std::invalid_argument{"--type " + options.type + " is not one of this program's"};
}
